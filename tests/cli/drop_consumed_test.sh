#!/usr/bin/env bash
# reshape --drop_consumed: input and output together take little more than one of them, at one rank and at three; a run that is killed goes on
# with what is left; nobody reads a checkpoint with holes or removes what is left of it; and what is not the checkpoint's own is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
MAKE="$(dirname "$SHARDWELD")/make_checkpoint"
data="$TESTS/data/megatron_states"
partial="$WORK/run/.out.shardweld-partial"

# fresh SOURCE: $WORK/run/in is a copy of it, and nothing else is there.
fresh() {
    rm -rf "$WORK/run"
    mkdir "$WORK/run"
    cp -r "$1" "$WORK/run/in"
}

# reshape_of RANKS FORM [options]: the command that drops $WORK/run/in while it writes $WORK/run/out.
reshape_of() {
    command=("$SHARDWELD" reshape "$WORK/run/in" "$WORK/run/out" --to "$2" --hf_config "$hf" --drop_consumed yes -q "${@:3}")
    (($1 == 1)) || command=(mpirun -n "$1" "${command[@]}")
}

same_tree() {
    diff -r -x shardweld_report.json "$1" "$2" >"$WORK/diff" || fail "$1 and $2 differ: $(head -3 "$WORK/diff")"
}

# peak: runs $command; the most that $WORK/run takes meanwhile, in KiB.
peak() {
    local now most=0
    "${command[@]}" >"$WORK/out" 2>"$WORK/err" &
    local job=$!
    while kill -0 "$job" 2>/dev/null; do
        sleep 0.02
        now="$(du -sk "$WORK/run" 2>/dev/null | cut -f1)"
        ((now > most)) && most="$now"
    done
    wait "$job" || fail "exit code $?: ${command[*]}: $(head -c 600 "$WORK/err")"
    echo "$most"
}

"$MAKE" --gb 0.15 --tp 4 "$WORK/big" >/dev/null || fail "make_checkpoint"
hf="$WORK/big/hf"
fresh "$WORK/big/source"
size="$(du -sk "$WORK/run/in" | cut -f1)"
expect_code 0 "$SHARDWELD" reshape "$WORK/big/source" "$WORK/whole" --to fsdp:world=4 --hf_config "$hf" -q

for ranks in 1 3; do
    fresh "$WORK/big/source"
    reshape_of "$ranks" fsdp:world=4
    most="$(peak)"
    ((most < size * (110 + 20 * ranks) / 100)) || fail "$most KiB at $ranks ranks, of $size"
    same_tree "$WORK/whole" "$WORK/run/out"
    [[ -z "$(find "$WORK/run/in" -name '*.pt')" ]] || fail "files are left"
    [[ -z "$(ls -A "$WORK/run/in/iter_0000001")" ]] || fail "left: $(ls -A "$WORK/run/in/iter_0000001")"
    python3 - "$WORK/run/out/shardweld_report.json" <<'PYTHON' || fail "see above"
import json, sys
dropped = json.load(open(sys.argv[1]))["dropped"]
assert dropped["files"] == 4 and dropped["left"] == [], dropped
assert 140e6 < dropped["carried_bytes"] <= dropped["bytes"] < 160e6, dropped
PYTHON
done

# killed: runs $command, which is killed as soon as something is gone.
killed() {
    local job
    "${command[@]}" >"$WORK/out" 2>"$WORK/err" &
    job=$!
    while (($(du -sk "$WORK/run/in" | cut -f1) > size - 4000)) && kill -0 "$job" 2>/dev/null; do sleep 0.01; done
    pkill -KILL -P "$job" 2>/dev/null || kill -KILL "$job"
    wait "$job" 2>/dev/null
    [[ -d "$partial" ]] || fail "it ended before it could be killed"
}

for case in "1 3" "3 1"; do
    read -r ranks later <<<"$case"
    fresh "$WORK/big/source"
    reshape_of "$ranks" fsdp:world=4 --bw_limit 150MB
    killed
    # Nothing else reads it, and nothing removes what is left of it.
    expect_code 3 "$SHARDWELD" reshape "$WORK/run/in" "$WORK/other" --to dcp --hf_config "$hf"
    expect_text "is being moved to $WORK/run/out"
    expect_code 3 "$SHARDWELD" reshape "$WORK/run/in" "$WORK/run/out" --to fsdp:world=4 --hf_config "$hf"
    reshape_of 1 fsdp:world=4 --restart
    expect_code 12 "${command[@]}"
    expect_text "all there is of what --drop_consumed has dropped"
    expect_code 0 "$SHARDWELD" clean "$WORK/run"
    expect_out "kept"
    reshape_of 1 dcp
    expect_code 6 "${command[@]}"
    expect_text "go on as it began"
    # It goes on, at another number of ranks.
    reshape_of "$later" fsdp:world=4
    most="$(peak)"
    ((most < size * (110 + 20 * later) / 100)) || fail "$most KiB at $later ranks, of $size, when it went on"
    same_tree "$WORK/whole" "$WORK/run/out"
    [[ -z "$(find "$WORK/run/in" -type f ! -name '*.txt')" ]] || fail "left: $(find "$WORK/run/in" -type f)"
done

# Killed between the target's appearance and the removal: what is left of the files goes.
fresh "$WORK/big/source"
cp -r "$WORK/whole" "$WORK/run/out"
printf '{"target": "%s", "partial": "%s", "number": "%s", "is_published": false, "files": ["mp_rank_00/model_optim_rng.pt"]}' \
    "$WORK/run/out" "$partial" "$(stat -c %i "$WORK/run/out")" >"$WORK/run/in/iter_0000001/.shardweld-dropping"
reshape_of 1 fsdp:world=4
expect_code 0 "${command[@]}"
[[ "$(find "$WORK/run/in" -name '*.pt' | wc -l)" == 3 ]] || fail "one file goes"
expect_absent "$WORK/run/in/iter_0000001/.shardweld-dropping"

# What was written is damaged by the time that a run goes on, and its input is gone.
fresh "$WORK/big/source"
reshape_of 1 fsdp:world=4 --bw_limit 150MB
killed
python3 - "$partial" <<'PYTHON'
import glob, sys
with open(glob.glob(sys.argv[1] + "/*rank_0.pt")[0], "r+b") as file:
    file.seek(9000000)
    byte = file.read(1)[0]
    file.seek(9000000)
    file.write(bytes([byte ^ 4]))
PYTHON
reshape_of 1 fsdp:world=4
expect_code 4 "${command[@]}"
expect_text "is damaged by now, and its input"
[[ -d "$partial" ]] || fail "the work is gone"

# States of an optimizer go with the weights, and not without them.
case="$data/qwen3moe-tp2-ep2-dp"
hf="$case/hf"
expect_code 0 "$SHARDWELD" reshape "$case/source" "$WORK/states" --to torch_dist --state all --hf_config "$hf" -q
for ranks in 1 3; do
    fresh "$case/source"
    reshape_of "$ranks" torch_dist --state all
    expect_code 0 "${command[@]}"
    same_tree "$WORK/states" "$WORK/run/out"
    [[ -z "$(find "$WORK/run/in" -name '*.distcp')" && -n "$(find "$WORK/run/in" -name .metadata)" ]] || fail "$(find "$WORK/run/in")"
done
fresh "$case/source"
reshape_of 1 torch_dist
expect_code 5 "${command[@]}"
expect_text "are not carried over"
same_tree "$case/source" "$WORK/run/in"


# refused CODE TEXT [options]: of a checkpoint that stays as it is.
refused() {
    reshape_of 1 fsdp:world=4 "${@:3}"
    expect_code "$1" "${command[@]}"
    expect_text "$2"
    expect_absent "$WORK/run/out"
    [[ "$(du -sk "$WORK/run/in" | cut -f1)" == "$before" ]] || fail "something is gone: $2"
    [[ -z "$(find "$WORK/run" -name '.*shardweld*')" ]] || fail "left: $(find "$WORK/run" -name '.*shardweld*')"
}
"$MAKE" --gb 0.002 --tp 2 "$WORK/small" >/dev/null
hf="$WORK/small/hf"
fresh "$WORK/small/source"
shard="$WORK/run/in/iter_0000001/mp_rank_01/model_optim_rng.pt"
before="$(du -sk "$WORK/run/in" | cut -f1)"
for option in --no_fsync "--also $WORK/b:bf16" "--base $hf" "--vocab_size 5" "--dtype fp32"; do
    refused 2 "exclude each other" $option
done
refused 2 "checks everything that it drops" --check_crc off
refused 2 "checks everything that it drops" --replicas trust
for value in "" no maybe; do
    expect_code 2 "$SHARDWELD" reshape "$WORK/run/in" "$WORK/run/out" --to dcp --drop_consumed $value
    expect_text "removes the checkpoint that is read"
done
ln "$shard" "$WORK/other-name"
refused 7 "has other names (hard links)"
rm "$WORK/other-name"
mv "$shard" "$WORK/run/elsewhere.pt" && ln -s "$WORK/run/elsewhere.pt" "$shard"
before="$(du -sk "$WORK/run/in" | cut -f1)"
refused 7 "is a link or no plain file"
rm "$shard" && mv "$WORK/run/elsewhere.pt" "$shard"
before="$(du -sk "$WORK/run/in" | cut -f1)"
exec 7<"$shard"
refused 7 "is open in another program"
exec 7<&-
mkdir -p "$WORK/run/models--a" && mv "$WORK/run/in" "$WORK/run/models--a/in" && ln -s "$WORK/run/models--a/in" "$WORK/run/in"
before="$(du -sk "$WORK/run/in" | cut -f1)"
refused 5 "lies in the Hub's cache"
finish
