#!/usr/bin/env bash
# The plan of a node's ranks lies there once, and where they have no memory in common with each; the files are the same.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
apart="$(dirname "$SHARDWELD")/../lib/no_memory_in_common.so"
dist="$TESTS/data/megatron/qwen3moe-tp2-ep2-torchdist-bf16"
lora="$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2"

# once VALUE: what the report says.
once() {
    python3 -c 'import json, sys; sys.exit(str(json.load(open(sys.argv[1]))["plan"]["once_a_node"]) != sys.argv[2])' "$WORK/way/shardweld_report.json" "$1" ||
        fail "the report says no $1"
}

# merged RANKS ENVIRONMENT [options]: into $WORK/way, and what $also names beside it; the models of one rank are in $WORK/alone.
also=()
merged() {
    local beside=()
    rm -rf "$WORK"/way*
    for form in "${also[@]}"; do beside+=(--also "$WORK/way$form"); done
    expect_code 0 env $2 mpirun -n "$1" "$SHARDWELD" merge --target_dir "$WORK/way" -v --no_fsync "${beside[@]}" "${@:3}" && same_files "$WORK/alone" "$WORK/way" "$*"
    for form in "${also[@]}"; do same_files "$WORK/alone${form%%:*}" "$WORK/way${form%%:*}" "$*, $form"; done
}

# in_all_ways [options]
in_all_ways() {
    local beside=()
    rm -rf "$WORK"/alone*
    for form in "${also[@]}"; do beside+=(--also "$WORK/alone$form"); done
    expect_code 0 "$SHARDWELD" merge --target_dir "$WORK/alone" -q --no_fsync "${beside[@]}" "$@"
    for strategy in direct collective; do
        for ranks in 2 3 5; do
            merged "$ranks" "" "$@" --strategy "$strategy"
            if [[ -e "$apart" ]]; then
                once True
                expect_text "this node's ranks hold the plan once"
            fi
        done
        [[ -e "$apart" ]] || continue # sanitizers
        for who in planner 1; do
            merged 3 "LD_PRELOAD=$apart APART=$who" "$@" --strategy "$strategy"
            once False
            expect_text "each rank holds the plan: no memory in common"
        done
    done
}

in_all_ways --local_dir "$dist/source" --hf_config "$dist/hf"
# What is changed in the plan later on, and what several plans come from.
in_all_ways --local_dir "$lora/source" --lora fold
in_all_ways --local_dir "$dist/source" --hf_config "$dist/hf" --quantize nvfp4a16
in_all_ways --local_dir "$dist/source" --hf_config "$dist/hf" --quantize gguf:q8_0
[[ ! -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" && ! -e "$(dirname "$SHARDWELD")/../lib/shardweld/shardweld_hdf5.so" ]] ||
    in_all_ways --local_dir "$dist/source" --hf_config "$dist/hf" --output_format hdf5
also=(-wide:fp32 -coded:nvfp4a16 -gguf:gguf:q4_0)
in_all_ways --local_dir "$dist/source" --hf_config "$dist/hf"

# Who has none beside him needs none.
expect_code 0 "$SHARDWELD" merge --local_dir "$dist/source" --hf_config "$dist/hf" --target_dir "$WORK/single" -q
python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["plan"]["once_a_node"] is not None)' "$WORK/single/shardweld_report.json" || fail "one rank has nobody"

# What a model is held against is planned once, too.
rm -rf "$WORK/way"
mkdir "$WORK/way"
testing=(test --local_dir "$dist/source" --hf_config "$dist/hf" --test_hf_dir "$WORK/single" -q)
expect_code 0 mpirun -n 3 "$SHARDWELD" "${testing[@]}" --report "$WORK/way/shardweld_report.json" && { [[ ! -e "$apart" ]] || once True; }
python3 - "$WORK/single" <<'P'
import pathlib, sys
path = min(pathlib.Path(sys.argv[1]).glob("*.safetensors"))
content = bytearray(path.read_bytes())
content[-1] ^= 64
path.write_bytes(content)
P
expect_code 13 mpirun -n 3 "$SHARDWELD" "${testing[@]}"

finish
