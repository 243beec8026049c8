#!/usr/bin/env bash
# Every field of the JSON that commands print or write stands in docs/using/report.md.
source "$(dirname "$0")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
model="$WORK/model"

# fields COMMAND...: the command's standard output has fields that are all described.
fields() {
    expect_code 0 "$@" --json
    described "$WORK/out"
}

# described FILE: so has the JSON in FILE. What `facts`, `claims`, `inert_globals`, `variables` and `metadata` hold is not the program's.
described() {
    python3 - "$TESTS/../docs/using/report.md" "$1" <<'PYTHON' || fail "fields that docs/using/report.md does not have"
import json, re, sys

known = set(re.findall(r"`([a-z0-9_]+)`", open(sys.argv[1]).read()))
free = {"facts", "claims", "inert_globals", "variables", "metadata"}

def unknown(value):
    if isinstance(value, list):
        return set().union(*map(unknown, value))
    if not isinstance(value, dict):
        return set()
    return (value.keys() - known).union(*(unknown(part) for name, part in value.items() if name not in free))

found = json.load(open(sys.argv[2]))
missing = unknown(found)
sys.exit(", ".join(sorted(missing)) if missing or not found else 0)
PYTHON
}

fields "$SHARDWELD" inspect "$CASE/source" --steps
fields "$SHARDWELD" inspect "$CASE/source"
fields "$SHARDWELD" plan --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$model"
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$model" --report "$WORK/report.json"
described "$WORK/report.json"
fields "$SHARDWELD" verify "$model" --report "$WORK/report.json"
fields "$SHARDWELD" check "$model"
fields "$SHARDWELD" inspect "$model/model.safetensors"
fields "$SHARDWELD" diff "$model" "$CASE/expected"

finish
