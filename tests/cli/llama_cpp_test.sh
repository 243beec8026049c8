#!/usr/bin/env bash
# GGUF files of small models with tokenizers, read by gguf-py and loaded by the real llama.cpp: the tokens of a text and the probabilities of
# the next one are those of transformers. Needs a Python with torch, transformers, gguf and xllamacpp: $SHARDWELD_PYTHON, else python3. Skipped
# loudly without; a failure under SHARDWELD_REQUIRE=llama_cpp.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with llama_cpp gguf torch transformers xllamacpp

"$python" "$TESTS/support/llama_cpp.py" make "$WORK/models" >"$WORK/making" 2>&1 || fail "$(tail -5 "$WORK/making")"
for type in bf16 q8_0; do
    for model in "$WORK/models"/*; do
        expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$model" --target_dir "$WORK/$type/$(basename "$model")" \
            --quantize "gguf:$type" -q --no_fsync
    done
    "$python" "$TESTS/support/llama_cpp.py" compare "$WORK/models" "$WORK/$type" >"$WORK/compare" 2>"$WORK/compare.err" ||
        fail "$type: $(tail -3 "$WORK/compare.err")"
    cat "$WORK/compare"
done
finish
