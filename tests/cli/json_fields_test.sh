#!/usr/bin/env bash
# Every field of the JSON that commands print or write stands in docs/using/report.md, and each result has its verdict (ok) and its directory (dir).
source "$(dirname "$0")/lib.sh"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
model="$WORK/model"

# fields COMMAND...: the command's standard output has fields that are all described.
fields() {
    expect_code 0 "$@" --json
    described "$WORK/out"
    python3 -c 'import json, sys
told = json.load(sys.stdin)
sys.exit(not all(one["ok"] is True and isinstance(one["dir"], str) for one in told.get("answers", [told])))' <"$WORK/out" || fail "no verdict, or no directory: $*"
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
fields "$SHARDWELD" check "$model" --target vllm --target sglang
fields "$SHARDWELD" inspect "$model/model.safetensors"
(cd "$model" && fields "$SHARDWELD" inspect model.safetensors)
fields "$SHARDWELD" diff "$model" "$CASE/expected"
fields "$SHARDWELD" test "$CASE/source" --hf_config "$CASE/hf" --test_hf_dir "$model"
fields "$SHARDWELD" plan "$CASE/source" "$WORK/later" --hf_config "$CASE/hf" --sbatch
fields "$SHARDWELD" report "$WORK/report.json"
fields "$SHARDWELD" delta "$model" "$WORK/alone" "$WORK/deltas"
fields "$SHARDWELD" clean "$WORK" --dry_run
fields "$SHARDWELD" recipes check --ref "$model"
fields "$SHARDWELD" recipes suggest --ref "$model"
expect_code 0 "$SHARDWELD" recipes llama --config "$model" --json
python3 -c 'import json, sys; told = json.load(sys.stdin); sys.exit(not (told["ok"] and told["dir"]))' <"$WORK/out" || fail "recipes --config: no verdict, or no directory"
# One of several that cannot be read is not well.
expect_code 3 "$SHARDWELD" check "$WORK/none" "$model" --json
python3 -c 'import json, sys; told = json.load(sys.stdin); sys.exit(told["ok"] or not told["answers"])' <"$WORK/out" || fail "a directory that is not there is well"
# What a person sees of a file, and of families as JSON.
expect_code 0 "$SHARDWELD" inspect "$model/model.safetensors" && expect_out model.norm.weight
expect_code 0 "$SHARDWELD" recipes --json && python3 -c 'import json, sys; sys.exit("llama" not in [one["recipe"] for one in json.load(sys.stdin)["families"]])' <"$WORK/out" ||
    fail "recipes --json does not list llama"

finish
