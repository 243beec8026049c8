#!/usr/bin/env bash
# What a run with fsync publishes is on the disk, whoever wrote it: calls are counted by tests/faults/inject.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
fsdp="$TESTS/data/torch/fsdp1_w2_fp32_llama/source"

# merged RANKS CODE FAULTS [options]: a merge into $WORK/place/model.
merged() {
    local launcher=() code="$2" faults="$3"
    (($1 == 0)) || launcher=(mpirun -n "$1")
    shift 3
    rm -rf "$WORK/counts"
    mkdir -p "$WORK/place"
    faults_at "$fsdp" "$WORK/place" || exit 77
    expect_code "$code" "${launcher[@]}" "${faulty[@]}" "$faults" "$SHARDWELD" merge --local_dir "$fsdp" --target_dir "$WORK/place/model" --max_shard_size 15KB -q "$@"
}

# all_synced: every file of the model was, by one rank at least.
all_synced() {
    local file
    for file in "$WORK"/place/model/*; do
        cut -f4 "$WORK"/counts/struck.* | grep -q "/$(basename "$file")$" || fail "$(basename "$file") was not synced"
    done
}

seen="call=fsync,side=output,nth=1,times=0,do=slow:0"
for ranks in 0 2; do
    merged "$ranks" 0 "$seen"
    all_synced
    rm -rf "$WORK/place"
    # Everything is written, nothing is synced; then there is nothing left to write.
    merged "$ranks" 7 "call=open,side=output,path=config.json,nth=1,do=error:5" --no_fsync
    expect_text "122 kB of 122 kB are kept"
    merged "$ranks" 0 "$seen" --resume
    all_synced
    rm -rf "$WORK/place"
done
finish
