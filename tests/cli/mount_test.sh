#!/usr/bin/env bash
# mount and unmount: every fixture through the mount against what merge writes, and what must not happen.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data"
mnt="$WORK/mnt"
mkdir "$mnt"
llama="$data/torch/fsdp2_w12_bf16_qwen2"
given=(--local_dir "$llama/source")

# Mounts of a test that fails half way are taken away before $WORK is.
take_away() {
    local point
    for point in $(grep -s ' fuse.shardweld ' /proc/self/mounts | cut -d' ' -f2 | grep -F "$WORK"); do
        umount -l "$point" 2>/dev/null || fusermount3 -uz "$point"
    done
}
trap 'take_away; rm -rf "${OWN[@]}"' EXIT

if [[ ! -e "$(dirname "$SHARDWELD")/../libexec/shardweld/shardweld-mount" ]]; then
    echo "SKIPPED: built without libfuse3"
    expect_code 5 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
    finish
    exit 77
fi
if [[ ! -e /dev/fuse ]] || ! "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" -q -- true 2>"$WORK/err"; then
    echo "SKIPPED: no FUSE here: $(head -1 "$WORK/err")"
    expect_code 5 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
    finish
    exit 77
fi

# mounted ARGUMENTS: mounts at $mnt in the background.
mounted() {
    expect_code 0 "$SHARDWELD" mount "$@" --target_dir "$mnt" --daemon -q
}
unmounted() {
    expect_code 0 "$SHARDWELD" unmount "$mnt"
    [[ -z "$(ls -A "$mnt")" ]] || fail "$mnt is not empty when it is unmounted"
}
# same_as_merge NAME ARGUMENTS: what merge writes with these options is what mount shows; where it refuses, so does mount, with its code.
same_as_merge() {
    local name="$1" code=0
    shift
    rm -rf "$WORK/merged"
    "$SHARDWELD" merge "$@" --target_dir "$WORK/merged" -q --no_fsync --replicas trust 2>"$WORK/err" || code=$?
    if ((code != 0)); then
        expect_code "$code" "$SHARDWELD" mount "$@" --target_dir "$mnt" --daemon -q || unmounted
        return
    fi
    n_same=$((n_same + 1))
    mounted "$@" || { fail "$name is not mounted"; return; }
    python3 "$TESTS/support/mounted.py" "$WORK/merged" "$mnt" "$n_same" >"$WORK/differences" || fail "$name: $(cat "$WORK/differences")"
    unmounted
}

# All fixtures of checkpoints.
# Those that merge refuses are held against it as well.
n_same=0
for source in "$data"/*/*/source; do
    dir="$(dirname "$source")"
    config=()
    [[ -n "$(find "$source" -type d -name huggingface -print -quit)" || ! -d "$dir/hf" ]] || config=(--hf_config "$dir/hf")
    same_as_merge "$dir" --local_dir "$source" "${config[@]}"
done
((n_same > 90)) || fail "only $n_same fixtures were mounted"

# What is asked of the model.
n_fixtures=$n_same
rank="$data/torch/fsdp2_lora_w2_fp32_qwen2/source"
same_as_merge "an adapter beside its base" --local_dir "$rank" --lora split
same_as_merge "a folded adapter" --local_dir "$rank" --lora fold --dtype bf16
same_as_merge "several files" "${given[@]}" --max_shard_size 5000 --no_card
same_as_merge "blocks of FP8" --local_dir "$data/quant/llama128/input" --quantize fp8-block
same_as_merge "rows of FP8" --local_dir "$data/quant/llama128/input" --quantize fp8-channel
same_as_merge "NVFP4" --local_dir "$data/quant/llama128/input" --quantize nvfp4a16
same_as_merge "GGUF" --local_dir "$data/quant/llama128/input" --quantize gguf:q8_0
same_as_merge "an average" --average "$llama/source" "$llama/source"
same_as_merge "some tensors" "${given[@]}" --include 'layers\.0\.' --names module
for form in torch_dist legacy:tp=2 fsdp:world=3 dcp:world=2; do
    same_as_merge "$form" --local_dir "$data/quant/llama128/input" --to "$form"
done
mv "$WORK/merged" "$WORK/like"
same_as_merge "a template's form" --local_dir "$data/quant/llama128/input" --like "$WORK/like"
has_hdf5=0
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]]; then
    has_hdf5=1
    same_as_merge "HDF5" "${given[@]}" --output_format hdf5
fi
((n_same == n_fixtures + 14 + has_hdf5)) || fail "a merge with options was refused"

# Its life: a command's code, a file that says when, and how it ends.
expect_code 7 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" -q --ready "$WORK/ready" -- bash -c 'test -s "$0" && test -s "$1/config.json" && exit 7' "$WORK/ready" "$mnt"
expect_absent "$WORK/ready"
expect_code 127 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" -q -- "$WORK/no-such-program"
expect_code 143 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" -q -- sh -c 'kill -TERM $$'
[[ -z "$(ls -A "$mnt")" ]] || fail "the model stays when its command has ended"
for signal in INT TERM HUP; do
    "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" -q --ready "$WORK/ready" &
    until [[ -e "$WORK/ready" ]]; do sleep 0.05; done
    kill "-$signal" "$(<"$WORK/ready")"
    wait $! || fail "code $? when it is ended by SIG$signal"
    [[ -z "$(ls -A "$mnt")" ]] || fail "the model stays behind SIG$signal"
done

# What is in use is not taken away, and what was killed is.
mounted "${given[@]}"
exec 5<"$mnt/config.json"
expect_code 15 "$SHARDWELD" unmount "$mnt"
exec 5<&-
expect_code 12 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
mkdir "$WORK/mnt2"
expect_code 0 "$SHARDWELD" mount "${given[@]}" --target_dir "$WORK/mnt2" --daemon -q
cmp "$mnt/model.safetensors" "$WORK/mnt2/model.safetensors" || fail "two mounts of one checkpoint differ"
expect_code 0 "$SHARDWELD" unmount "$WORK/mnt2"
unmounted
expect_code 3 "$SHARDWELD" unmount "$mnt"

# Killed: with the process goes the mount; where what takes it away was killed as well, clean and unmount find it.
killed() {
    mounted "${given[@]}" --ready "$WORK/ready"
    local server helper
    server="$(<"$WORK/ready")"
    helper="$(pgrep -f "fusermount3 .*$mnt" | head -1)"
    [[ "$1" == server || -z "$helper" ]] || kill -KILL "$helper"
    kill -KILL "$server"
    rm -f "$WORK/ready"
}
killed server
for _ in $(seq 100); do
    grep -q "$mnt fuse" /proc/self/mounts || break
    sleep 0.05
done
ls -A "$mnt" >/dev/null || expect_code 0 "$SHARDWELD" unmount "$mnt"
killed both
expect_code 12 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
expect_code 0 "$SHARDWELD" clean "$WORK" --dry_run
expect_out "$mnt"
expect_code 0 "$SHARDWELD" clean "$WORK"
unseen="$(ls -A "$mnt" 2>&1)"
[[ -z "$unseen" ]] || fail "clean left a dead mount: $unseen"
killed both
unmounted

# Read only, and nobody's but the user's.
mounted "${given[@]}"
touch "$mnt/new" 2>/dev/null && fail "a file is made in a model"
(echo x >"$mnt/config.json") 2>/dev/null && fail "a file of a model is written"
rm -f "$mnt/config.json" 2>/dev/null && fail "a file of a model is removed"
[[ "$(ls -A "$mnt" | grep -c '^[.]')" == 0 ]] || fail "what begins with a dot is listed"
python3 - "$mnt" <<'PYTHON' || fail "the report of a mount"
import json, sys
def told(name):
    return json.load(open(f"{sys.argv[1]}/.shardweld/{name}"))
before = told("report.json")
assert not before["is_proved"] and before["records"]["checked"] == 0 and before["merge"]["ledger"], before
proof = told("verify")
assert proof["is_proved"] and not proof["failures"] and proof["records"]["unchecked"] == 0 < proof["records"]["checked"], proof
PYTHON
for launcher in "" "mpirun -n 2"; do
    expect_code 0 $launcher "$SHARDWELD" verify "$mnt" --json
    python3 -c 'import json, sys; told = json.load(open(sys.argv[1])); assert told["ok"] and told["contents_checked"] and told["tensors"], told' "$WORK/out" || fail "verify of a mount"
done
unmounted

# A source that changes, is cut, goes or is damaged meanwhile: EIO, and the report says why.
# fails_with CODE NAME: reading all of the model fails, with this code in the report.
fails_with() {
    cat "$mnt"/*.safetensors >/dev/null 2>"$WORK/err" && fail "$2 is read as if nothing were"
    grep -qi 'input/output error' "$WORK/err" || fail "$2: $(cat "$WORK/err")"
    python3 -c 'import json, sys; assert json.load(open(sys.argv[1]))["failures"][0]["code"] == int(sys.argv[2])' \
        "$mnt/.shardweld/report.json" "$1" || fail "$2: the report does not say it"
    unmounted
}
copied() {
    rm -rf "$WORK/copy"
    mkdir "$WORK/copy"
    cp -r "$llama/source" "$WORK/copy/source"
    shard="$(ls "$WORK"/copy/source/model*_rank_3.pt)"
    mounted --local_dir "$WORK/copy/source"
}
copied
cp "$shard" "$WORK/shard" && cat "$WORK/shard" >"$shard"
fails_with 7 "a shard that was written again"
copied
truncate -s 1000 "$shard"
fails_with 7 "a shard that was cut"
copied
rm "$shard"
fails_with 3 "a shard that is gone"
rm -rf "$WORK/copy"
mkdir "$WORK/copy"
cp -r "$llama/source" "$WORK/copy/source"
python3 - "$WORK"/copy/source/model*_rank_3.pt <<'PYTHON'
import sys, zipfile
name = sys.argv[1]
record = max(zipfile.ZipFile(name).infolist(), key=lambda one: one.file_size if "/data/" in one.filename else 0)
with open(name, "r+b") as file:
    file.seek(record.header_offset + 26)
    skip = sum(int.from_bytes(file.read(2), "little") for _ in range(2))
    file.seek(record.header_offset + 30 + skip)
    one = file.read(1)
    file.seek(-1, 1)
    file.write(bytes([one[0] ^ 64]))
PYTHON
mounted --local_dir "$WORK/copy/source"
expect_code 4 "$SHARDWELD" verify "$mnt" --json
fails_with 4 "a damaged record"
mounted --local_dir "$WORK/copy/source" --check_crc off
cat "$mnt/model.safetensors" >/dev/null || fail "--check_crc off"
unmounted

# A source that does not answer, which is a mount whose server was stopped: EIO in time. When it answers again, all of it can be proved.
mkdir -p "$WORK/mnt2"
expect_code 0 "$SHARDWELD" mount "${given[@]}" --target_dir "$WORK/mnt2" --daemon -q --ready "$WORK/ready"
mounted "$WORK/mnt2" --to dcp:world=2 --stall_timeout 1
kill -STOP "$(<"$WORK/ready")"
timeout 20 cat "$mnt"/*.distcp >/dev/null 2>"$WORK/err" && fail "a source that does not answer is read"
grep -qi 'input/output error' "$WORK/err" || fail "a source that does not answer: $(cat "$WORK/err")"
kill -CONT "$(<"$WORK/ready")"
cat "$mnt"/*.distcp >/dev/null || fail "a source that answers again"
python3 -c 'import json, sys; told = json.load(open(sys.argv[1])); assert told["failures"][0]["code"] == 7, told' "$mnt/.shardweld/report.json" ||
    fail "the report does not say that the source did not answer"
expect_code 0 "$SHARDWELD" verify "$mnt"
unmounted
expect_code 0 "$SHARDWELD" unmount "$WORK/mnt2"

# A reader that is killed leaves the others alone.
mounted "${given[@]}" --cache_limit 16MiB
for _ in 1 2 3 4 5; do
    { exec cat "$mnt"/* "$mnt"/* >/dev/null; } &
    kill -KILL $!
done
wait 2>/dev/null
cmp "$mnt/config.json" "$llama/source/huggingface/config.json" >/dev/null || [[ -s "$mnt/config.json" ]] || fail "a mount behind killed readers"
unmounted

# watch --mount: the newest complete step is what the link leads to; older ones stay while they are read, or the link may just have led there.
run="$WORK/run" out="$WORK/seen" dcp="$data/torch/dcp_w2_bf16_qwen2"
watching() {
    "$SHARDWELD" watch "$run" "$out" --mount --hf_config "$dcp/hf" --interval 0.1 "$@" >"$WORK/watch.log" 2>&1 &
    watch=$!
}
leads_to() {
    mkdir -p "$run"
    cp -r "$dcp/source" "$run/step-$1"
    shown "$1"
}
shown() {
    for _ in $(seq 300); do
        [[ "$(readlink "$out/latest")" == ".step-$1" ]] && cmp -s "$out/latest/model.safetensors" "$WORK/merged/model.safetensors" && return
        sleep 0.1
    done
    fail "step-$1 is not mounted: $(cat "$WORK/watch.log")"
}
# told N EVENT STEP: the diary tells it so often.
told() {
    for _ in $(seq 100); do
        (($(grep -c "\"event\":\"$2\",\"step\":\"step-$3\"" "$out/watch.jsonl") >= $1)) && return
        sleep 0.1
    done
    fail "$2 of step-$3 is not told: $(cat "$out/watch.jsonl" "$WORK/watch.log")"
}
points() {
    ls -dA "$out"/.step-* 2>/dev/null | grep -v '[.][rt][^.]*$' | sed 's/.*step-//' | paste -sd' '
}
rm -rf "$WORK/merged"
expect_code 0 "$SHARDWELD" merge "$dcp/source" "$WORK/merged" --hf_config "$dcp/hf" -q --no_fsync
mkdir -p "$run/step-9" && cp "$dcp/source/__0_0.distcp" "$run/step-9"
cp -r "$dcp/source" "$run/step-1"
watching --then "sh -c 'cat \$SHARDWELD_OUTPUT/config.json \$SHARDWELD_REPORT >\$SHARDWELD_OUTPUT.then'"
leads_to 2
exec 6<"$out/latest/model.safetensors"
leads_to 3
leads_to 4
leads_to 5
told 1 unmounted 3
[[ "$(points)" == "2 4 5" && -s "$out/.step-5.then" ]] || fail "mounts behind five steps: $(points)"
expect_code 15 "$SHARDWELD" watch "$run" "$out" --mount --hf_config "$dcp/hf"
cmp /dev/fd/6 "$WORK/merged/model.safetensors" || fail "an older step that is read"
exec 6<&-
told 1 unmounted 2
[[ "$(points)" == "4 5" ]] || fail "an older step that nobody reads any more stays: $(points)"
# Killed, it leaves the mounts to the next one; a mount that was killed is made again; a step that was written again is mounted again; it ends with all of them, read or not.
kill -KILL "$watch"
wait "$watch" 2>/dev/null
shown 5
rm -f "$out"/.*.then
watching
told 1 complete 5
kill -KILL "$(<"$out/.step-5.ready")"
told 2 made 5
leads_to 6
leads_to 7
rm -rf "$run/step-7"
leads_to 7
told 2 made 7
shown 7
exec 6<"$out/latest/config.json"
kill -TERM "$watch"
code=0
wait "$watch" || code=$?
exec 6<&-
[[ "$code" == 11 && "$(ls -A "$out")" == watch.jsonl ]] || fail "the end of a watch with mounts, $code: $(ls -A "$out")"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --mount --also "$WORK/also"
expect_code 2 "$SHARDWELD" watch "$run" "$out" --mount --sha256
mkdir "$out/latest"
expect_code 12 "$SHARDWELD" watch "$run" "$out" --mount --hf_config "$dcp/hf" --interval 0.1

# Places where there can be no mount.
mkdir -p "$WORK/full/below" "$WORK/copy"
cp -r "$llama/source" "$WORK/copy/source"
mkdir "$WORK/copy/source/below"
expect_code 12 "$SHARDWELD" mount "${given[@]}" --target_dir "$WORK/full"
expect_code 12 "$SHARDWELD" mount "${given[@]}" --target_dir "$WORK/no-such-directory"
expect_code 12 "$SHARDWELD" mount "${given[@]}" --target_dir "$llama/case.json"
expect_code 12 "$SHARDWELD" mount --local_dir "$WORK/copy/source" --target_dir "$WORK/copy/source/below"
as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if ((EUID == 0)) && chmod 755 "$WORK" && "${as_nobody[@]}" test -x "$SHARDWELD"; then
    expect_code 12 "${as_nobody[@]}" "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
    expect_text "may not be written"
    mkdir "$WORK/theirs"
    chown 65534 "$WORK/theirs"
    # Whatever the rights of /dev/fuse are: a mount that nobody else sees, or one message.
    code=0
    "${as_nobody[@]}" "$SHARDWELD" mount "${given[@]}" --target_dir "$WORK/theirs" -q -- sh -c 'test -s "$0/config.json" && exit 9' "$WORK/theirs" 2>"$WORK/err" || code=$?
    [[ "$code" == 9 || "$code" == 5 ]] || fail "code $code for a user's mount: $(cat "$WORK/err")"
    for shown in "" --allow_other; do
        mounted "${given[@]}" $shown
        code=0
        "${as_nobody[@]}" cat "$mnt/config.json" >/dev/null 2>&1 || code=$?
        [[ "$code" == "$([[ -n "$shown" ]]; echo $?)" ]] || fail "another user's reading of a mount $shown: $code"
        unmounted
    done
fi
if unshare -m sh -c 'mount -t tmpfs none /dev' 2>/dev/null; then
    expect_code 5 unshare -m sh -c 'mount -t tmpfs none /dev && exec "$@"' sh "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt"
    expect_text "safe_open"
fi
expect_code 2 "$SHARDWELD" mount "${given[@]}"
expect_code 2 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" --cache_limit 1MiB
expect_code 2 "$SHARDWELD" mount "${given[@]}" --target_dir "$mnt" --daemon -- true
finish
