#!/usr/bin/env bash
# Names and shapes as the Hub has them: every table of tests/data/hf_names, planned with its recipe.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

checks=1
python3 "$TESTS/support/plan_tables.py" "$SHARDWELD" "$TESTS/data/hf_names" "$WORK/tables" >"$WORK/faults" || fail "$(cat "$WORK/faults")"
tail -1 "$WORK/faults"

# A table that does not fit is told: the test above can fail.
mkdir "$WORK/wrong"
sed 's/"mlp.gate_proj.weight"\|gate_proj/gate_prov/' "$TESTS/data/hf_names/llama.json" >"$WORK/wrong/llama.json"
python3 "$TESTS/support/plan_tables.py" "$SHARDWELD" "$WORK/wrong" "$WORK/tables_wrong" >"$WORK/out" && fail "a wrong name passed"
finish
