#!/usr/bin/env bash
# Ways of reading and writing: rounds read ahead by a thread, writes past the page cache, little memory, few open files. The model is the
# same bytes in all of them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# all_ways CASE: its merge in every manner has the bytes of the plainest one.
all_ways() {
    local dir="$1" plain strategy ranks manner
    rm -rf "$WORK/plain"
    merge_case "$dir" "$WORK/plain" 0 && same_as_expected "$dir" "$WORK/plain"
    plain=$(sum_of "$WORK/plain")
    for strategy in direct collective; do
        for ranks in 1 3; do
            for manner in "--read_ahead yes" "--read_ahead no" "--direct_io" "--read_ahead yes --memory_limit 1MiB --max_open 1" \
                "--direct_io --max_shard_size 20kB"; do
                rm -rf "$WORK/merged"
                # shellcheck disable=SC2086
                merge_case "$dir" "$WORK/merged" "$ranks" --strategy "$strategy" $manner || continue
                if [[ "$manner" == *max_shard_size* ]]; then
                    same_as_expected "$dir" "$WORK/merged"
                else
                    [[ $(sum_of "$WORK/merged") == "$plain" ]] || fail "$(basename "$dir") with $ranks ranks, $strategy, $manner: other bytes"
                fi
            done
        done
    done
}

all_ways "$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
all_ways "$TESTS/data/megatron/llama-tp4-legacy-bf16"

# Direct writes that are cut short: what is left is not aligned any more.
dcp="$TESTS/data/torch/dcp_hf_w2_bf16_qwen2"
if faults_at "$dcp" "$WORK/short"; then
    for strategy in direct collective; do
        rm -rf "$WORK/short"
        mkdir "$WORK/short"
        expect_code 0 mpirun -n 2 "${faulty[@]}" call=write,side=output,phase=execute,times=0,do=short "$SHARDWELD" merge -q --local_dir "$dcp/source" --hf_config "$dcp/hf" \
            --target_dir "$WORK/short/model" --direct_io --max_shard_size 100KB --strategy "$strategy"
        same_as_expected "$dcp" "$WORK/short/model"
        grep -q '\.safetensors' "$WORK/counts/struck.0" || fail "no write was cut short"
    done
fi

expect_code 2 "$SHARDWELD" merge --local_dir x --read_ahead perhaps && expect_text "--read_ahead"

finish
