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

# quick NAME CODE TEXT...: like `refused`, within 20 seconds and 1 GiB, or what `data` says.
data=$((1 << 30))
quick() {
    local name="$1" code="$2" begin="$SECONDS" text
    shift 2
    merge_copy 0 "${more[@]}"
    expect_code "$code" prlimit --data="$data" timeout 20 "${merging[@]}" || echo "    (slow: $name)"
    [[ -z "${SHARDWELD_SHOW:-}" ]] || echo "$name [$code, $((SECONDS - begin)) s]: $(grep '^error:' "$WORK/err" | head -c 300)"
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
more=(--lora_alpha 8) # for none of these patterns fits, and a file of other ranks is another adapter's
quick "an adapter's expressions" 0
more=()
start "$fsdp"
mkdir "$source/more"
(cd "$source" && seq -f 'junk_%.0f.pt' 20000 | xargs touch && cd more && seq 20000 | xargs touch)
quick "forty thousand files beside the shards" 0

# Numbers of config.json that are counted through: layers, experts, MTP layers, whatever the command.
config="huggingface/config.json"
start "$fsdp"
expect_code 0 "$SHARDWELD" merge --local_dir "$source" --target_dir "$WORK/undamaged" -q
slow field "$source/$config" num_hidden_layers 5000000
quick "five million layers" 6 "config.json promises" "no model has so many layers or experts"
for command in plan "plan --trace model.norm.weight" "test --test_hf_dir $WORK/undamaged"; do
    expect_code 6 timeout 20 "$SHARDWELD" $command --local_dir "$source" && expect_text "no model has so many layers or experts"
done
slow field "$source/$config" num_hidden_layers 100000
quick "a hundred thousand layers" 6 "num_hidden_layers 100000, the checkpoint has "
for model in qwen3moe-tp2-ep2-torchdist-bf16 mixtral-ep2-pp2-legacy-bf16; do
    for experts in 1000000000 40000; do
        start "megatron/$model"
        name=num_experts
        [[ "$model" != mixtral* ]] || name=num_local_experts
        slow field "$hf/config.json" "$name" "$experts"
        quick "$experts experts in $model" 6
    done
done
for layers in 3000000 20000; do
    start megatron/deepseekv3-mtp-pp2-torchdist-bf16
    slow field "$hf/config.json" num_nextn_predict_layers "$layers"
    quick "$layers MTP layers" 6 "no model has so many layers or experts"
done

# Pickles that are refused before they are read, or by the file's name where they take too much.
data=$((256 << 20))
start "$fsdp"
slow hollow_record "$iter/$rank"
quick "a data.pkl of holes" 4 "$rank" "unknown opcode 0x00"
for fault in hollow_pickle padded_pickle long_text; do
    start "$dcp"
    slow "$fault" "$source/.metadata"
    case "$fault" in
        hollow_pickle) quick "metadata of holes" 4 ".metadata" "unknown opcode 0x00" ;;
        padded_pickle) quick "metadata with holes behind it" 4 ".metadata" "zeros or other bytes" ;;
        *) quick "metadata that does not fit" 9 "memory ran out" ".metadata of 537 MB" ;;
    esac
done
data=$((512 << 20))
for fault in marks empty_lists; do
    start "$dcp"
    slow "$fault" "$source/.metadata"
    quick "metadata of $fault" 4 ".metadata" "more than"
done
finish
