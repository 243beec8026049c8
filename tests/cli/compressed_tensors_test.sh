#!/usr/bin/env bash
# Quantised models loaded by transformers with the real compressed-tensors library, or its own blocks of FP8: nothing is missing or unexpected, and
# each weight has the value that --dtype bf16 gives. Needs a Python with torch, transformers and compressed_tensors: $SHARDWELD_PYTHON, else python3.
# What `check` calls an error does harm there: it is refused, a tensor is missing, or values are others. Skipped loudly without; a failure under
# SHARDWELD_REQUIRE=compressed_tensors.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export HF_HUB_OFFLINE=1
python_with compressed_tensors torch transformers compressed_tensors

# transformers 5.23 ignores the global scales of experts in NVFP4.
for case in llama128/{fp8-block,fp8-channel,fp8-block-ct,w8a16,w8a16-channel,w4a16,w4a16-g32,w4a16-g64,w4a16-channel,nvfp4a16,mxfp4} llama192/{fp8-block,fp8-block-ct,w8a16-channel,w8a16-g64,w8a16-g32,w4a16-g64,mxfp4} \
    qwen3moe128/{fp8-channel,w4a16,mxfp4}; do
    codes="$WORK/$case/codes" values="$WORK/$case/values"
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$TESTS/data/quant/${case%/*}/input" --target_dir "$codes" \
        --quantize "${case#*/}" -q --no_fsync &&
        expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$codes" --target_dir "$values" --dtype bf16 -q --no_fsync
done
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

# Models with a tower: each module that stays as it is, is on the list by the name that it has in the tree of modules, too.
for case in gemma3vl-tp2-legacy-bf16/fp8-channel gemma3vl-tp2-legacy-bf16/w4a16-channel mistral3-tp2-legacy-bf16/fp8-channel qwen25vl-tied-tp2-pp2-legacy-bf16/fp8-channel; do
    source="$TESTS/data/megatron_families/${case%/*}"
    expect_code 0 "$SHARDWELD" merge "$source/source" "$WORK/towers/$case" --hf_config "$source/hf" --quantize "${case#*/}" -q --no_fsync
done
"$python" - "$WORK"/towers/*/* <<'PYTHON' >"$WORK/towers.out" 2>"$WORK/towers.err" || fail "$(tail -5 "$WORK/towers.err")"
import sys

import torch
from transformers import AutoModelForImageTextToText, CompressedTensorsConfig

for directory in sys.argv[1:]:
    config = CompressedTensorsConfig(run_compressed=False)
    _, told = AutoModelForImageTextToText.from_pretrained(directory, dtype=torch.bfloat16, output_loading_info=True, quantization_config=config)
    assert not any(told[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), (directory, told)
PYTHON

# One thing is wrong in each directory.
expect_code 0 "$SHARDWELD" merge --backend hf --local_dir "$TESTS/data/quant/llama128/input" --target_dir "$WORK/parts" --max_shard_size 64KiB -q --no_fsync
"$python" - "$SHARDWELD" "$TESTS/support" "$WORK" <<'PYTHON' >"$WORK/harmed" 2>"$WORK/harmed.err" || fail "$(tail -5 "$WORK/harmed.err")"
import json, pathlib, shutil, subprocess, sys

import torch
from transformers import AutoModelForCausalLM

shardweld, support, work = sys.argv[1:]
sys.path.insert(0, support)
import edit_safetensors

work = pathlib.Path(work)
plain, blocks, packed, parts = work / "llama128/w4a16/values", work / "llama128/fp8-block/codes", work / "llama128/w4a16/codes", work / "parts"
UP = "model.layers.0.mlp.up_proj"


def config(change):
    def harm(directory):
        path = directory / "config.json"
        fields = json.loads(path.read_text())
        change(fields)
        path.write_text(json.dumps(fields))

    return harm


def quantised(change):
    return config(lambda fields: change(fields["quantization_config"]))


def tensor(action, *arguments):
    def harm(directory):
        path = directory / "model.safetensors"
        tensors = edit_safetensors.read(path)
        edit_safetensors.edit(tensors, action, arguments)
        edit_safetensors.write(path, tensors)

    return harm


def put_stale_weights(directory):
    path = directory / "model.safetensors"
    shutil.copy(plain / "model.safetensors", path)
    tensors = edit_safetensors.read(path)
    for _, _, data in tensors.values():
        data[:] = bytes(len(data))
    edit_safetensors.write(path, tensors)


FAULTS = {
    "stale weights": (parts, put_stale_weights),
    "no config": (plain, lambda directory: (directory / "config.json").unlink()),
    "no model type": (plain, config(lambda fields: fields.pop("model_type"))),
    "another vocabulary": (plain, config(lambda fields: fields.update(vocab_size=fields["vocab_size"] + 8))),
    "no head": (plain, tensor("drop", "lm_head.weight")),
    "a layer less": (plain, config(lambda fields: fields.update(num_hidden_layers=fields["num_hidden_layers"] + 1))),
    "a norm less": (plain, tensor("drop", "model.norm.weight")),
    "codes without a config": (packed, config(lambda fields: fields.pop("quantization_config"))),
    "blocks without a config": (blocks, config(lambda fields: fields.pop("quantization_config"))),
    "codes without scales": (packed, tensor("drop", f"{UP}.weight_scale")),
    "blocks without scales": (blocks, tensor("drop", f"{UP}.weight_scale_inv")),
    "codes without a shape": (packed, tensor("drop", f"{UP}.weight_shape")),
    "no status": (packed, quantised(lambda fields: fields.pop("quantization_status"))),
    "a head not listed": (packed, quantised(lambda fields: fields.update(ignore=[]))),
    "codes listed": (packed, quantised(lambda fields: fields["ignore"].append(UP))),
}


def logits(directory):
    """And what was told. As config.json says: an object in its place would make up for its faults."""
    torch.manual_seed(1)
    model, told = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.bfloat16, output_loading_info=True)
    with torch.no_grad():
        found = model.eval()(torch.arange(24).reshape(1, -1) % 16).logits
    return found, [kind for kind in ("missing_keys", "unexpected_keys", "mismatched_keys") if told[kind]]


def harm_done(intact, directory):
    try:
        found, told = logits(directory)
    except Exception as error:
        return f"refused: {type(error).__name__}"
    if told:
        return "told: " + ", ".join(told)
    return "" if torch.equal(found, intact) else "other values"


def check(directory):
    return subprocess.run([shardweld, "check", directory, "--target", "transformers"], stdout=subprocess.PIPE, text=True)


intact = {directory: logits(directory) for directory in (plain, blocks, packed, parts)}
for directory, (_, told) in intact.items():
    assert check(directory).returncode == 0 and not told, (directory, told)
problems = []
for name, (directory, harm) in FAULTS.items():
    harmed = work / "harmed-model"
    shutil.copytree(directory, harmed)
    harm(harmed)
    checked, done = check(harmed), harm_done(intact[directory][0], harmed)
    shutil.rmtree(harmed)
    print(f"{name}: {checked.returncode}, {done or 'loads as before'}")
    if checked.returncode != 14 or not done:
        problems.append(f"{name}: check gives {checked.returncode}, {done or 'it loads as before'}: {checked.stdout}")
assert not problems, problems
PYTHON
cat "$WORK/harmed"
finish
