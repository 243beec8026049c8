"""compare_traffic.py PLAN REPORT [small]: what `plan --json` says of every rank is what the merge's report counted.

Bytes written and sent have to be equal, and the reads of metadata. Bytes read too, where the plan expects no gaps to be read over and pieces are
large: between pieces of a few kilobytes that share a read (small) gaps are read that the plan does not know of.
"""

import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    plan = json.load(file)
with open(sys.argv[2], encoding="utf-8") as file:
    report = json.load(file)

is_small = sys.argv[3:] == ["small"]
problems = []


def check(what, is_good):
    if not is_good:
        problems.append(what)


check("strategy", plan["strategy"] == report["plan"]["strategy"])
check("plan", plan["hash"] == report["plan"]["hash"])
replicas = plan["replicas"]
check("replicas are sampled: nothing to compare exactly", replicas["compared_bytes"] + replicas["equal_bytes"] == replicas["bytes"])
ranks = len(report["ranks"])
for figure in ("written", "sent", "read"):
    planned = plan[figure + "_by_rank"]
    done = [rank["bytes_" + figure] for rank in report["ranks"]]
    if figure == "read" and (is_small or plan["read_over_bytes"] > 0):
        # Gaps are those of a typical round.
        needed = sum(planned) - plan["read_over_bytes"]
        most = 4 * needed if is_small else 1.1 * sum(planned)
        check(f"read {done}, planned {planned}", needed <= sum(done) <= most)
    else:
        check(f"{figure} {done}, planned {planned}", done == planned)
check("network_bytes", plan["network_bytes"] == sum(rank["bytes_sent"] for rank in report["ranks"]))
# However many ranks share them, metadata are read once.
check("metadata_reads", 0 < plan["metadata_reads"] == report["input"]["metadata_reads"])
check("nothing is sent", (plan["network_bytes"] > 0) == (plan["strategy"] == "collective" and ranks > 1))

for problem in problems:
    print(problem)
sys.exit(1 if problems else 0)
