#!/usr/bin/env bash
# --verl gives what verl 0.9.1's own merger gives: tensors to the bit, values of the configs, the list of files. Needs a Python with torch,
# transformers and verl, for Megatron megatron-core too: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=verl.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="${SHARDWELD_PYTHON:-python3}"

if ! "$python" -c 'import torch, transformers, verl.model_merger.base_model_merger' 2>/dev/null; then
    echo "SKIPPED: $python has no verl"
    [[ ",${SHARDWELD_REQUIRE:-}," != *,verl,* ]] || fail "verl is required"
    finish
    exit 77
fi

# beside HUGGINGFACE-DIR: a tokenizer, as trainers save one.
beside() {
    "$python" - "$1" <<'P' || fail "cannot make a tokenizer"
import sys
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast
words = {word: at for at, word in enumerate(["<unk>", "<s>", "</s>", "a", "b"])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>").save_pretrained(sys.argv[1])
P
}

# same_as_verl BACKEND CASE-DIR [merger's options]
same_as_verl() {
    local backend="$1" name source hf
    name="$(basename "$2")"
    cp -r "$2/source" "$WORK/$name"
    hf="$(find "$WORK/$name" -type d -name huggingface)"
    source="$(dirname "$hf")"
    [[ "$backend" == fsdp ]] || source="$(dirname "$source")"
    beside "$hf"
    mkdir "$WORK/$name-verl"
    checks=$((checks + 1))
    "$python" "$TESTS/support/run_verl_merger.py" "$backend" "$source" "$WORK/$name-verl" "${@:3}" >"$WORK/out" 2>"$WORK/err" ||
        { fail "$name: verl's merger: $(tail -3 "$WORK/err")"; return; }
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend "$backend" --local_dir "$source" --target_dir "$WORK/$name-ours" --verl -q "${@:3}" || return
    checks=$((checks + 2))
    python3 "$TESTS/support/compare_safetensors.py" "$WORK/$name-ours" "$WORK/$name-verl" >/dev/null 2>"$WORK/compare" ||
        fail "$name: $(cat "$WORK/compare")"
    python3 "$TESTS/support/compare_side_files.py" "$WORK/$name-verl" "$WORK/$name-ours" 2>"$WORK/compare" || fail "$name: $(cat "$WORK/compare")"
}

for name in fsdp1_w2_fp32_llama fsdp2_w4_bf16_qwen2_tied hsdp2_w4_bf16_llama fsdp2_value_w2_bf16_qwen2; do
    same_as_verl fsdp "$TESTS/data/torch/$name"
done
if "$python" -c 'import megatron.core' 2>/dev/null; then
    same_as_verl megatron "$TESTS/data/megatron/verl-qwen3-tp2-pp2-torchdist-bf16"
else
    echo "SKIPPED in part: $python has no megatron-core"
fi
finish
