#!/usr/bin/env bash
# What stands in the way of a merge is said at once and before anything is written, by merge and plan alike: rights, room, archives. What
# config.json, target, report, memory and warnings stand in is rows of tests/cases/preflight_config.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
fsdp=torch/fsdp1_w2_fp32_llama
legacy=megatron/llama-tp4-legacy-bf16

# Whether quotas are known belongs to the plan of a target; the report says the same.
start "$fsdp"
expect_code 0 "$SHARDWELD" plan --local_dir "$source" --target_dir "$target" -q
told="$(sed -n 's/^quotas *//p' "$WORK/out")"
merge_copy 2 --report "$WORK/report.json"
expect_code 0 "${merging[@]}"
python3 - "$WORK/report.json" "$told" <<'P' || fail "plan says of quotas: $told"
import json, sys
quotas = json.load(open(sys.argv[1]))["quotas"]
assert sys.argv[2] == ("checked: " + ", ".join(quotas) if quotas else "unknown on this file system"), quotas
P

# Rights, as a user who has few.
as_other=()
if ((EUID == 0)); then
    as_other=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
chmod 755 "$WORK" "$place"
if "${as_other[@]}" "$SHARDWELD" version >"$WORK/out" 2>"$WORK/err"; then
    start "$fsdp"
    chmod 777 "$place"
    merging=("${as_other[@]}" "$SHARDWELD" merge --local_dir "$source" --target_dir "$target" -q)
    mkdir -m 555 "$WORK/closed"
    expect_code 7 "${merging[@]}" --report "$WORK/closed/r.json"
    expect_text "the report $WORK/closed/r.json could not be written: no right to write in $WORK/closed: Permission denied (errno 13)"
    chmod 000 "$source"/*rank_0.pt "$source"/*rank_1.pt
    merging=("${as_other[@]}" "$SHARDWELD" merge --local_dir "$source" --target_dir "$target" -q)
    expect_code 7 "${merging[@]}"
    expect_text "2 files of the checkpoint cannot be read by this user: model_world_size_2_rank_0.pt, model_world_size_2_rank_1.pt"
    chmod 644 "$source"/*.pt
    touch "$source/huggingface/tokenizer.json"
    chmod 000 "$source/huggingface/tokenizer.json"
    expect_code 7 "${merging[@]}"
    expect_text "1 file of the model cannot be read by this user: $source/huggingface/tokenizer.json"
    [[ -z "$(ls -A "$place")" ]] || fail "left $(ls -A "$place")"
    chmod 755 "$place"
    chmod 000 "$source"/*rank_1.pt
    expect_code 7 "${merging[@]}"
    expect_text "2 problems, nothing was written"
    expect_text "no right to write in $place (Permission denied)"
    expect_text "1 file of the checkpoint cannot be read"
    chmod 700 "$place"
    expect_code 7 "${merging[@]}"
    expect_text "2 problems, nothing was written"  # not three: where the target leads is asked twice
    chmod 755 "$place"
    chmod -R 755 "$WORK/copy"
    expect_code 7 "${merging[@]}"
    mkdir "$target"
    chmod 777 "$target"
    expect_code 0 "${merging[@]}"
    [[ -s "$target/config.json" ]] || fail "no model in a target that may be written while its parent may not"
else
    echo "SKIPPED: no other user can run $SHARDWELD here"
fi

# File systems without room: bytes, inodes, and the config beside.
cat >"$WORK/full.sh" <<'S'
set -eu
place="$1" size="$2" inodes="$3"
shift 3
mount -t tmpfs -o "size=$size,nr_inodes=$inodes" shardweld "$place"
"$@"
code=$?
[ -z "$(ls -A "$place")" ] || echo "something is left"
exit $code
S
full() {
    local code=0
    timeout 180 unshare -m bash "$WORK/full.sh" "$place" "$1" "$2" "${merging[@]}" >"$WORK/out" 2>"$WORK/err" || code=$?
    [[ "$code" == "$3" ]] || fail "exit code $code, expected $3: $(head -c 600 "$WORK/err")"
    ((code == 0)) || ! grep -q "is left" "$WORK/out" || fail "something is left"
}
if unshare -m true 2>/dev/null && unshare -m mount -t tmpfs none /mnt 2>/dev/null; then
    start "$legacy"
    for ranks in 0 3; do
        merge_copy "$ranks"
        full 64k 100 8
        expect_text "free, the output needs"
        expect_text "free space or choose another --target_dir"
    done
    merge_copy 0 --max_shard_size 100KB
    full 64k 10 8
    expect_text "free, the output needs"
    expect_text "9 free inodes, the output needs 17 files"
    # Fewer than any merge needs: known before the metadata are read.
    full 64k 3 8
    expect_text "2 free inodes, the output needs at least 9 files"
    # What lies beside the tensors counts, and is no surprise behind them.
    start torch/fsdp1_w2_fp32_llama
    python3 -c 'print("{\"x\": \"" + 400000 * "x" + "\"}")' >"$source/huggingface/tokenizer.json"
    half="$(($(stat -c %s "$source"/*rank_0.pt) / 2000))"
    for ranks in 0 2; do
        merge_copy "$ranks"
        full 300k 100 8
        expect_text "307 kB free, the output needs at least $((400 + half)) kB"
        full 500k 100 8
        expect_text "512 kB free, the output needs 571 kB"
        # Model, card, tokenizer, config, report; the journal's files, one for each rank and two more; what they lie in.
        needed=$((ranks == 0 ? 11 : 12))
        full 700k "$needed" 8
        expect_text "$((needed - 1)) free inodes, the output needs $needed files"
        full 700k "$((needed + 1))" 0
    done
    merging=("$SHARDWELD" plan --local_dir "$source" --target_dir "$target" -q)
    full 500k 100 8
    expect_text "512 kB free, the output needs 571 kB"
    start "$legacy"
    merging=("$SHARDWELD" plan --local_dir "$source" --target_dir "$target" "${options[@]}" -q)
    full 64k 100 8
    expect_text "free, the output needs"
else
    echo "SKIPPED: no right to make a mount namespace"
fi

# Shards that a file system has handed to an archive (HSM) are seen before one is read: by less on disk than their size, and what its tool says.
tools="$WORK/tools"
mkdir "$tools"
"$(dirname "$SHARDWELD")/make_checkpoint" "$WORK/archived" --gb 0.02 --format torch_dist --sparse --tp 2 --writers 1 >"$WORK/log"
shards=("$WORK"/archived/source/*/*.distcp) # sparse, as released files are
# tool NAME: the program of that name prints what standard input says for each file, %s.
tool() {
    { echo '#!/bin/bash'; echo "echo \"\$*\" >>'$WORK/asked'; shift"; echo "for file; do printf '$(cat)\n' \"\$file\"; done"; } >"$tools/$1"
    chmod +x "$tools/$1"
    rm -f "$WORK/asked"
}
# plan_archived CODE: plan with these tools first on PATH.
plan_archived() {
    PATH="$tools:$PATH" expect_code "$1" "$SHARDWELD" plan --local_dir "$WORK/archived/source" --hf_config "$WORK/archived/hf" -q
}
tool lfs <<<'%s: (0x0000000d) released exists archived, archive_id:1'
plan_archived 7 && {
    expect_text "${#shards[@]} of ${#shards[@]} shard files in "
    expect_text "lfs hsm_restore"
}
grep -q '^hsm_state .*distcp' "$WORK/asked" || fail "lfs was not asked"
for answer in '%s: (0x00000009) exists archived, archive_id:1' 'cannot get HSM state of %s: Operation not supported'; do
    tool lfs <<<"$answer"
    plan_archived 0
    grep -q '^hsm_state' "$WORK/asked" || fail "lfs was not asked"
done
rm "$tools/lfs"
tool mmlsattr <<<'file name:            %s\nMisc attributes:      ARCHIVE OFFLINE'
plan_archived 7 && expect_text "in an archive only (HSM)"
rm -rf "$tools" "$WORK/archived"

finish
