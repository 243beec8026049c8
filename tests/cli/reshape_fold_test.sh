#!/usr/bin/env bash
# reshape --lora fold: a training checkpoint in one step has the bytes of two, a merge that folds and a reshape of what it wrote; in every form, at
# any number of ranks and with either strategy.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
torch="$TESTS/data/torch"
megatron="$TESTS/data/megatron_lora"
peft="$TESTS/data/peft"

# in_two_steps NAME FORM SOURCE [OPTIONS]: what is to come out, in $WORK/NAME-FORM; the folded model stays in $WORK/NAME
in_two_steps() {
    [[ -d "$WORK/$1" ]] || expect_code 0 "$SHARDWELD" merge "$3" "$WORK/$1" --lora fold -q --no_fsync "${@:4}" || return
    expect_code 0 "$SHARDWELD" reshape "$WORK/$1" "$WORK/$1-$2" --to "$2" -q --no_fsync
}

# folded NAME FORM SOURCE [OPTIONS]: at one rank and at three, with either strategy
folded() {
    in_two_steps "$@" || return
    expect_code 0 "$SHARDWELD" reshape "$3" "$WORK/once" --to "$2" --lora fold -q --no_fsync "${@:4}" &&
        same_files "$WORK/once" "$WORK/$1-$2" "$1 to $2" && expect_code 0 "$SHARDWELD" verify "$WORK/once" -q
    for strategy in direct collective; do
        rm -rf "$WORK/once"
        expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "$3" "$WORK/once" --to "$2" --lora fold --strategy $strategy -q --no_fsync "${@:4}" &&
            same_files "$WORK/once" "$WORK/$1-$2" "$1 to $2 at three ranks, $strategy"
    done
    rm -rf "$WORK/once" "$WORK/$1-$2"
}

# PEFT's names in rank files, with a base of their own.
lora="$torch/fsdp2_lora_w2_fp32_qwen2/source"
for form in torch_dist legacy:tp=2,pp=2 fsdp:world=3 dcp:world=2; do
    folded lora $form "$lora"
done
folded cast torch_dist "$lora" --dtype bf16
same_tensors "$WORK/lora" "$torch/fsdp2_lora_w2_fp32_qwen2/expected/merged"
# DoRA on linear layers (norms of rows) and on embeddings (of columns), and a head that was trained as a whole.
folded dora legacy:tp=2 "$torch/lora_dora_embed_w2/source"
folded dora dcp:world=3 "$torch/lora_dora_embed_w2/source"
# An adapter alone, of stacks of experts, and its base.
for form in torch_dist legacy:tp=2,ep=3,etp=1 fsdp:world=3; do
    folded experts $form "$peft/qwen3moe-experts/adapter" --base "$peft/qwen3moe-experts/base"
done
folded turned legacy:tp=2,ep=3,etp=1 "$peft/gptoss-experts/adapter" --base "$peft/gptoss-experts/base"
# Megatron-Bridge's own names beside Megatron's weights: qkv and fc1 have adapters in parts.
folded bridge torch_dist "$megatron/llama-tp2-torchdist-fp32/source" --hf_config "$megatron/llama-tp2-torchdist-fp32/hf"
folded bridge legacy:tp=2 "$megatron/llama-tp2-torchdist-fp32/source" --hf_config "$megatron/llama-tp2-torchdist-fp32/hf"
folded legacy fsdp:world=3 "$megatron/qwen3-tp2-pp2-legacy-fp32/source" --hf_config "$megatron/qwen3-tp2-pp2-legacy-fp32/hf"

# Like a template: of the same type, and of one to which what is folded is cast.
expect_code 0 "$SHARDWELD" merge "$lora" "$WORK/base" --lora drop -q --no_fsync
for form in legacy:tp=2 fsdp:world=2; do
    for dtype in fp32 bf16; do
        expect_code 0 "$SHARDWELD" reshape "$WORK/base" "$WORK/template" --to $form --dtype $dtype -q --no_fsync
        expect_code 0 "$SHARDWELD" reshape "$WORK/lora" "$WORK/twice" --like "$WORK/template" -q --no_fsync
        expect_code 0 mpirun -n 3 "$SHARDWELD" reshape "$lora" "$WORK/once" --like "$WORK/template" --lora fold -q --no_fsync
        same_files "$WORK/once" "$WORK/twice" "like $form, $dtype"
        rm -rf "$WORK"/{template,twice,once}
    done
done

# Several at once: a model and training checkpoints of the same fold. Little memory.
expect_code 0 "$SHARDWELD" reshape "$WORK/lora" "$WORK/twice" --to fsdp:world=3 -q --no_fsync
expect_code 0 mpirun -n 2 "$SHARDWELD" merge "$lora" "$WORK/model" --lora fold --also "$WORK/once:fsdp:world=3" -q --no_fsync &&
    same_tensors "$WORK/model" "$WORK/lora"
same_files "$WORK/once" "$WORK/twice" "beside a model"
rm -rf "$WORK"/{model,once}
expect_code 0 mpirun -n 2 "$SHARDWELD" reshape "$lora" "$WORK/first" --to dcp:world=2 --lora fold --also "$WORK/model" --also "$WORK/once:fsdp:world=3" \
    -q --no_fsync && same_tensors "$WORK/model" "$WORK/lora"
same_files "$WORK/once" "$WORK/twice" "beside another training checkpoint"
rm -rf "$WORK"/{first,model,once}
expect_code 0 mpirun -n 2 "$SHARDWELD" reshape "$lora" "$WORK/once" --to fsdp:world=3 --lora fold --strategy collective --memory_limit 1MiB \
    --message_limit 64 -q --no_fsync
same_files "$WORK/once" "$WORK/twice" "with little memory"

# It takes the memory that plan says, within a tenth and half a megabyte: a model of 60 MB and factors of rank 8 for it.
"$(dirname "$SHARDWELD")/make_checkpoint" --gb 0.06 --tp 2 --format fsdp "$WORK/large" >/dev/null || fail "make_checkpoint"
expect_code 0 "$SHARDWELD" merge "$WORK/large/source" "$WORK/large.hf" --hf_config "$WORK/large/hf" -q --no_fsync
py "$WORK/large.hf" "$WORK/adapter" <<'PYTHON'
import json, os, random, struct, sys
import edit_safetensors as files
model, adapter = sys.argv[1:]
factors, rng = {}, random.Random(1)
for name, (_, (rows, columns), _) in ((name, tensor) for name, tensor in files.read(model).items() if name.endswith("_proj.weight")):
    for letter, shape in (("A", [8, columns]), ("B", [rows, 8])):
        values = struct.pack("<%df" % (shape[0] * shape[1]), *(rng.uniform(-1, 1) for _ in range(shape[0] * shape[1])))
        factors[f"base_model.model.{name[:-len('.weight')]}.lora_{letter}.weight"] = ["F32", shape, values]
assert factors, "no projection"
os.mkdir(adapter)
files.write(adapter + "/adapter_model.safetensors", factors)
with open(adapter + "/adapter_config.json", "w") as file:
    json.dump({"peft_type": "LORA", "r": 8, "lora_alpha": 16, "task_type": "CAUSAL_LM", "target_modules": "all-linear"}, file)
PYTHON
for run in "1 legacy:tp=4" "2 torch_dist --strategy collective"; do
    read -r ranks form options <<<"$run"
    rm -rf "$WORK/once"
    fold=("$WORK/adapter" "$WORK/once" --base "$WORK/large.hf" --lora fold --to "$form" $options --memory_limit 8MiB --report "$WORK/report.json")
    expect_code 0 "$SHARDWELD" plan "${fold[@]}" --ranks "$ranks" --json && cp "$WORK/out" "$WORK/plan.json"
    launcher=()
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    expect_code 0 "${launcher[@]}" "$SHARDWELD" reshape "${fold[@]}" -q
    python3 - "$WORK/plan.json" "$WORK/report.json" <<'PYTHON' || fail "$run: other memory than plan says"
import json
import sys

plan, report = (json.load(open(path)) for path in sys.argv[1:])
said, taken = plan["peak_bytes"], max(rank["peak_bytes"] for rank in report["ranks"])
print("plan says %d bytes, a rank took %d" % (said, taken))
sys.exit(taken < 2 << 20 or abs(said - taken) > taken / 10 + (1 << 19))
PYTHON
done
finish
