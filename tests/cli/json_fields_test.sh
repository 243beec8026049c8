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
# A merge tells it, too, and what fails tells that in place of a result, also a wrong command line.
fields "$SHARDWELD" merge "$CASE/source" "$WORK/alone" --hf_config "$CASE/hf"
for refused in "3 merge $WORK/none $WORK/x" "2 merge --merge" "3 inspect $WORK/none" "3 check $WORK/none" "3 verify $WORK/none"; do
    expect_code "${refused%% *}" "$SHARDWELD" ${refused#* } --json
    python3 -c 'import json, sys
told = json.load(sys.stdin)
sys.exit(told["ok"] or told["error"]["code"] != int(sys.argv[1]))' "${refused%% *}" <"$WORK/out" || fail "no error in JSON: $refused"
done
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$CASE/hf" --target_dir "$model" --report "$WORK/report.json"
described "$WORK/report.json"
fields "$SHARDWELD" verify "$model" --report "$WORK/report.json"
fields "$SHARDWELD" check "$model"
fields "$SHARDWELD" inspect "$model/model.safetensors"
fields "$SHARDWELD" diff "$model" "$CASE/expected"

finish
