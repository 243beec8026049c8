#!/usr/bin/env bash
# reshape --lora fold takes the memory that plan says. That it writes the bytes of two steps is rows of tests/cases/reshape_fold.txt.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# Within a tenth and half a megabyte: a model of 60 MB and factors of rank 8 for it.
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
