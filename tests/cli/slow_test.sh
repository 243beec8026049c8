#!/usr/bin/env bash
# Files of some megabytes that are made to be slow: answered within seconds and within memory.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
fsdp=torch/fsdp1_w2_fp32_llama
rank=model_world_size_2_rank_0.pt
norm=model.norm.weight
dcp=torch/dcp_w2_bf16_qwen2

slow() {
    python3 -B "$TESTS/support/slow.py" "$@" || fail "cannot make the fault: $*"
}

# quick NAME CODE TEXT...: like `refused`, within 20 seconds and 1 GiB.
quick() {
    local name="$1" code="$2" begin="$SECONDS" text
    shift 2
    merge_copy 0 "${more[@]}"
    expect_code "$code" prlimit --data=$((1 << 30)) timeout 20 "${merging[@]}" || echo "    (slow: $name)"
    [[ -z "${SHARDWELD_SHOW:-}" ]] || echo "$name [$code, $((SECONDS - begin)) s]: $(grep 'shardweld: error:' "$WORK/err" | head -c 300)"
    for text in "$@"; do
        expect_text "$text" || echo "    (slow: $name)"
    done
    rm -rf "$target"
}

start "$fsdp"
slow shared_state "$iter/$rank" "$norm"
quick "tensors that share a huge state" 4 "$rank" "attributes"
start "$fsdp"
slow shared_tensor "$iter/$rank" "$norm"
quick "one tensor under many names" 6 "$rank"
start "$fsdp"
slow long_shape "$iter/$rank" "$norm"
quick "many shapes of many axes" 6 "$rank" "... 200000 axes"
start "$fsdp"
slow memo "$iter/$rank"
quick "lists of lists of one value" 0
start "$fsdp"
slow records "$iter/$rank"
quick "an archive of many records" 0
start "$dcp"
slow chunks "$source/.metadata" model.lm_head.weight
quick "chunks that form no grid" 6 lm_head.weight
start hf/qwen2-tied-bin-zip-2-files
source="$WORK/copy"
more=(--backend hf)
slow index "$source/pytorch_model.bin.index.json"
quick "an index of a million tensors" 3 "t.0"
start hf/qwen2-tied-bin-zip-2-files
source="$WORK/copy"
slow fields "$source/config.json"
quick "a million fields in config.json" 4 "config.json has too many fields"
start torch/dcp_hf_consolidated_w3
rm -r "$source/sharded"
slow header "$source/model-00002-of-00002.safetensors"
quick "a header of many empty tensors" 0
more=()
start torch/lora_patterns_bias_w1
slow patterns "$source/lora_adapter/adapter_config.json"
quick "an adapter's expressions" 0
start "$fsdp"
mkdir "$source/more"
(cd "$source" && seq -f 'junk_%.0f.pt' 20000 | xargs touch && cd more && seq 20000 | xargs touch)
quick "forty thousand files beside the shards" 0
finish
