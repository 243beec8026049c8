#!/usr/bin/env bash
# Quantised models loaded by transformers with the real compressed-tensors library, or its own blocks of FP8: nothing is missing or unexpected, and
# each weight has the value that --dtype bf16 gives. Needs a Python with torch, transformers and compressed_tensors: $SHARDWELD_PYTHON, else python3.
# Skipped loudly without; a failure under SHARDWELD_REQUIRE=compressed_tensors.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with compressed_tensors torch transformers compressed_tensors

# transformers 5.23 ignores the global scales of experts in NVFP4.
for case in llama128/{fp8-block,fp8-channel,fp8-block-ct,w8a16,w8a16-channel,w4a16,nvfp4a16,mxfp4} llama192/{fp8-block,fp8-block-ct,w8a16-channel,mxfp4} \
    qwen3moe128/{fp8-channel,w4a16,mxfp4}; do
    codes="$WORK/$case/codes" values="$WORK/$case/values"
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$TESTS/data/quant/${case%/*}/input" --target_dir "$codes" \
        --quantize "${case#*/}" -q --no_fsync &&
        expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$codes" --target_dir "$values" --dtype bf16 -q --no_fsync
done
checks=$((checks + 1))
"$python" - "$WORK" "$WORK"/*/* <<'PYTHON' >"$WORK/loaded" 2>"$WORK/loaded.err" || fail "$(tail -5 "$WORK/loaded.err")"
import json, os, sys

import torch
from transformers import AutoModelForCausalLM, CompressedTensorsConfig

root, *cases = sys.argv[1:]


def loaded(directory):
    """Decompressed by the library, whose choice it is on a CPU otherwise to keep codes."""
    with open(f"{directory}/config.json") as file:
        method = json.load(file).get("quantization_config", {}).get("quant_method")
    more = {"quantization_config": CompressedTensorsConfig(run_compressed=False)} if method == "compressed-tensors" else {}
    model, told = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, output_loading_info=True, **more)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), (directory, told)
    return model.eval()


for case in filter(os.path.isdir, cases):
    codes, values = loaded(f"{case}/codes"), loaded(f"{case}/values")
    read = codes.state_dict()
    for name, wanted in values.state_dict().items():
        assert torch.equal(read[name].to(torch.bfloat16), wanted), (case, name)
    tokens = torch.arange(24).reshape(1, -1) % values.config.vocab_size
    with torch.no_grad():
        assert torch.equal(codes(tokens).logits, values(tokens).logits), case
    print(os.path.relpath(case, root), len(values.state_dict()), "tensors equal")
PYTHON
cat "$WORK/loaded"
finish
