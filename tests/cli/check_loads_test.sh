#!/usr/bin/env bash
# check against what transformers does: it loads what check passes, whole, and refuses or fills with random values what check calls broken.
# Needs a Python with torch and transformers: $SHARDWELD_PYTHON, else python3. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=transformers.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with transformers torch transformers

# Decoders, experts, latents, recurrent layers, towers of each kind, and a language model inside of a family that knows its ends only.
families=(llama qwen3.tied qwen2_moe mixtral deepseek_v3 deepseek_v4 gemma3.base glm4v kimi_k25 llava mistral3.ministral3 nemotron_h
    qwen2_audio qwen2_vl qwen3_next qwen3_vl voxtral glmasr llama.ForSequenceClassification)
"$python" "$TESTS/support/check_loads.py" "$SHARDWELD" "$TESTS/data/hf_names" "$WORK/loads" "${families[@]}" >"$WORK/loads.out" 2>"$WORK/err" ||
    fail "$(head -20 "$WORK/loads.out") $(tail -1 "$WORK/err")"
tail -1 "$WORK/loads.out"
finish
