#!/usr/bin/env bash
# Real checkpoints damaged in some three hundred ways; tests/support/mutate.py says what must hold for each.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
mkdir "$WORK/variants"
python3 -B "$TESTS/support/mutate.py" "$SHARDWELD" "$TESTS" "$WORK/variants" --record "$WORK/record.json" || fail "variants as printed above"
# A mutator that damages nothing would find nothing.
python3 - "$WORK/record.json" <<'PY' || fail "the variants are not what they should be: $(cat "$WORK/record.json")"
import json, sys
with open(sys.argv[1], encoding="utf-8") as file:
    record = json.load(file)
codes = record["codes"]
assert record["variants"] == 300 and len(record["cases"]) >= 11 and len(record["faults"]) >= 14, record
assert codes["4"] > 60 and codes["3"] > 5 and codes["6"] > 3 and codes["0"] > 20, record
assert record["outcomes"]["data"] > 5, record
PY
finish
