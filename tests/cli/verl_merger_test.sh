#!/usr/bin/env bash
# --verl gives what verl 0.9.1's own merger gives: tensors to the bit, values of the configs, the list of files. Needs a Python with torch,
# transformers and verl, for Megatron megatron-core too: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=verl.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python_with verl torch transformers verl.model_merger.base_model_merger

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

# with_head VERL OURS: verl makes a value head the first row of an lm_head that is zero otherwise, and leaves generation_config.json behind.
with_head() {
    py "$@" <<'P' || fail "$2: the value head"
import os, sys
from edit_safetensors import read, write
(verl, ours), name = sys.argv[1:], "model.safetensors"
tensors, (_, shape, head) = read(f"{verl}/{name}"), read(f"{ours}/{name}")["score.weight"]
_, _, rows = tensors.pop("lm_head.weight")
assert rows[:len(head)] == head and not any(rows[len(head):])
tensors["score.weight"] = ["BF16", shape, head]
write(f"{verl}/{name}", tensors)
os.remove(f"{ours}/generation_config.json")
P
}

# same_as_verl BACKEND ROLE-DIR NAME [merger's options]: ROLE-DIR is a copy.
same_as_verl() {
    local backend="$1" source="$2" name="$3"
    beside "$(find "$source" -type d -name huggingface)"
    mkdir "$WORK/$name-verl"
    "$python" "$TESTS/support/run_verl_merger.py" "$backend" "$source" "$WORK/$name-verl" "${@:4}" >"$WORK/out" 2>"$WORK/err" ||
        { fail "$name: verl's merger: $(tail -3 "$WORK/err")"; return; }
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend "$backend" --local_dir "$source" --target_dir "$WORK/$name-ours" --verl -q "${@:4}" || return
    [[ "$*" != *--is-value-model* ]] || with_head "$WORK/$name-verl" "$WORK/$name-ours"
    compare_models "$name" || fail "$name: $(cat "$WORK/compare")"
}

compare_models() { # NAME
    local ours="$WORK/$1-ours" verl="$WORK/$1-verl" part
    for part in . lora_adapter; do
        [[ ! -e "$verl/$part" ]] || python3 "$TESTS/support/compare_safetensors.py" "$ours/$part" "$verl/$part" >/dev/null 2>"$WORK/compare" || return
    done
    python3 "$TESTS/support/compare_side_files.py" "$verl" "$ours" 2>"$WORK/compare"
}

for name in fsdp1_w2_fp32_llama fsdp2_w4_bf16_qwen2_tied hsdp2_w4_bf16_llama fsdp2_value_w2_bf16_qwen2 fsdp2_lora_w2_fp32_qwen2; do
    cp -r "$TESTS/data/torch/$name/source" "$WORK/$name"
    same_as_verl fsdp "$(dirname "$(find "$WORK/$name" -type d -name huggingface)")" "$name"
done
if "$python" -c 'import megatron.core' 2>/dev/null; then
    # verl looks for model/ in the role's directory; the saves are of different releases.
    cp -r "$TESTS"/data/megatron/verl-qwen3-tp2-pp2-torchdist-bf16/source/global_step_*/actor "$WORK/actor"
    same_as_verl megatron "$WORK/actor" actor
    mkdir "$WORK/critic"
    cp -r "$TESTS"/data/megatron/verl-value-llama-tp2-torchdist-bf16/source/global_step_*/critic "$WORK/critic/model"
    same_as_verl megatron "$WORK/critic" critic --is-value-model
else
    echo "SKIPPED in part: $python has no megatron-core"
fi
finish
