#!/usr/bin/env bash
# Shards that only some ranks can see: each part of the launch is given another directory, as on node-local disks.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# merge_apart CODE HF TARGET-OF-SECOND [options]: rank 0 sees $WORK/a, ranks 1 and 2 see $WORK/b.
merge_apart() {
    local code="$1" hf="$2" second="$3"
    shift 3
    expect_code "$code" mpirun -n 1 "$SHARDWELD" merge --local_dir "$WORK/a" --hf_config "$hf" --target_dir "$WORK/out_dir" -q "$@" \
        : -n 2 "$SHARDWELD" merge --local_dir "$WORK/b" --hf_config "$hf" --target_dir "$second" -q "$@"
}

split_case() {
    rm -rf "$WORK"/{a,b,out_dir}
    cp -r "$1/source" "$WORK/a"
    cp -r "$1/source" "$WORK/b"
}

legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
for strategy in auto direct collective; do
    split_case "$legacy"
    rm -r "$WORK"/a/iter_*/mp_rank_0[23] "$WORK"/b/iter_*/mp_rank_0[01]
    merge_apart 0 "$legacy/hf" "$WORK/out_dir" --strategy "$strategy" --report "$WORK/report.json" && same_as_expected "$legacy" "$WORK/out_dir"
    python3 - "$WORK/report.json" "$strategy" <<'P' || fail "report of $strategy"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["plan"]["strategy"] == ("collective" if sys.argv[2] == "collective" else "direct"), report["plan"]
assert all(rank["bytes_sent"] > 0 for rank in report["ranks"]), report["ranks"]
P
done

# A file that nobody sees is named at once.
rm -r "$WORK"/b/iter_*/mp_rank_03
rm -rf "$WORK/out_dir"
merge_apart 3 "$legacy/hf" "$WORK/out_dir" && expect_text "mp_rank_03/model_optim_rng.pt"
expect_absent "$WORK/out_dir"

# torch_dist: one side has the metadata, the other only shards.
dist="$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
split_case "$dist"
rm "$WORK"/a/iter_*/__[23]* "$WORK"/b/iter_*/{__[01]*,.metadata,common.pt,metadata.json}
merge_apart 0 "$dist/hf" "$WORK/out_dir" && same_as_expected "$dist" "$WORK/out_dir"
rm -rf "$WORK/out_dir" "$WORK"/b/iter_*/__3_1.distcp
merge_apart 3 "$dist/hf" "$WORK/out_dir" && expect_text "__3_1.distcp"
expect_absent "$WORK/out_dir"

# The same file with another size on two nodes.
split_case "$dist"
truncate -s -1 "$WORK"/b/iter_*/__3_1.distcp
merge_apart 6 "$dist/hf" "$WORK/out_dir" && expect_text "__3_1.distcp"
expect_absent "$WORK/out_dir"

# The same file with one size and other bytes on two nodes: one of them is stale.
split_case "$dist"
python3 - "$WORK"/b/iter_*/__3_1.distcp <<'P'
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(3000)
    byte = file.read(1)
    file.seek(3000)
    file.write(bytes([byte[0] ^ 1]))
P
merge_apart 6 "$dist/hf" "$WORK/out_dir" && expect_text "__3_1.distcp has other contents"
expect_absent "$WORK/out_dir"

# A target that is not one directory for all ranks: a private mount hides rank 0's.
if unshare --mount true 2>/dev/null; then
    split_case "$legacy"
    mkdir -p "$WORK/place"
    expect_code 10 mpirun -n 1 "$SHARDWELD" merge --local_dir "$WORK/a" --hf_config "$legacy/hf" --target_dir "$WORK/place/model" -q \
        : -n 1 unshare --mount bash -c "mount -t tmpfs none '$WORK/place' && exec '$SHARDWELD' merge --local_dir '$WORK/b' \
        --hf_config '$legacy/hf' --target_dir '$WORK/place/model' -q" && expect_text "same directory"
    expect_absent "$WORK/place/model"

    # Ranks in mount namespaces of their own (containers) that see the same files: one of them plans for all.
    planners() { # NAME NUMBER CHECKPOINT
        rm -rf "$WORK"/{logs,out_dir}
        expect_code 0 mpirun -n 3 unshare --mount "$SHARDWELD" merge --local_dir "$3" --hf_config "$legacy/hf" --target_dir "$WORK/out_dir" -q \
            --log_dir "$WORK/logs" && same_as_expected "$legacy" "$WORK/out_dir"
        [[ $(grep -l "phase survey" "$WORK"/logs/* | wc -l) == "$2" ]] || fail "$1: not $2 planners"
    }
    planners "one directory" 1 "$WORK/b"
    # Behind links each may see other files.
    rm -rf "$WORK/linked"
    mkdir "$WORK/linked"
    ln -s "$WORK"/b/* "$WORK/linked/"
    planners "links" 3 "$WORK/linked"
else
    echo "SKIPPED: no right to make a mount namespace"
fi
finish
