#!/usr/bin/env bash
# simulate_test.sh BIN DIR ROOT: merges of a small checkpoint are simulated and drawn; what must hold on any machine does.
set -euo pipefail
command -v python3 >/dev/null || { echo 'SKIPPED: python3 is not installed'; exit 77; }
bin=$1 root=$3
mkdir -p "$2"
work=$(mktemp -d "$2/simulate.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$bin/make_checkpoint" "$work/model" --model moe --format torch_dist --tp 4 --pp 2 --ep 6 --etp 2 >/dev/null
"$bin/simulate_merge" "$work/model/source" --hf_config "$work/model/hf" --machines "$root/tests/bench/machines.json" \
    --name small --ranks 16 >"$work/lines"
python3 "$root/scripts/plot_scaling.py" "$work/lines" --svg "$work/plot.svg" --table "$work/table"
python3 - "$work" <<'CHECK'
import json, sys, xml.dom.minidom

work = sys.argv[1]
with open(work + "/lines", encoding="utf-8") as file:
    rows = [json.loads(line) for line in file]
machines = {row["machine"] for row in rows}
assert len(machines) == 3 and len(rows) == 3 * 2 * 5, len(rows)
for row in rows:
    phases = sum(row[name + "_s"] for name in ("metadata", "read", "exchange", "copy", "write", "meetings"))
    assert row["total_s"] <= phases * 1.000001, row
    needs_network = row["ranks"] > 1 and row["strategy"] == "collective"
    is_apart = row["machine"] == "local" and row["ranks"] > 8
    assert (row["sent_bytes"] > 0) == (needs_network or is_apart), row
    assert row["written_imbalance"] <= 1.05, row
lines = xml.dom.minidom.parse(work + "/plot.svg").getElementsByTagName("polyline")
assert len(lines) == 2 * len(machines), len(lines)
assert all(len(line.getAttribute("points").split()) == 5 for line in lines)
CHECK
echo "simulated"
