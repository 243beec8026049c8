"""A real merge as large as the disk allows: random bytes, read cold and synced, by two ranks of one host and by a rank on each of two hosts, which are
namespaces of this machine, beside plain parallel copying. Each runs once, and all that a merge wrote is compared. Knows how two hosts are started; the
rest is a merge's."""
import os
import shlex

import merging
import pairs
import plain_io

_TESTS = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))


def case_of(model):
    return merging.Case(model, ranks=2, cache="cold", fsync="yes")


def key(model):
    return dict(case_of(model).record("direct"), kind="large")


def _on_two_hosts(place, command):
    start = 'source "$1/hosts/apart.sh"; needs hosts; run_apart "$2" hosts/run.sh'
    return ["env", "N_HOSTS=2", "CASES=timed", f"TIMED={shlex.join(command[1:])}", "bash", "-c", start, "hosts", _TESTS, os.path.dirname(place.program("shardweld"))]


def record(place, model):
    """Starting hosts, about a second, is in the time of the merge on two."""
    case = case_of(model)
    one = merging.Merging(place, case)
    two = merging.Merging(place, case, lambda command: _on_two_hosts(place, command))
    # Of the ways of copying only the one that a merge of this size takes.
    roof = pairs.Side("roof", lambda _: plain_io.measure(place.work, case.ranks, one.inputs, ("copy_behind",), sync=True, cold=True))
    merge, apart = one.sides(["direct"])[-1], two.sides(["direct"])[-1]
    for side in (roof, merge, apart):
        pairs.measure_once(side, one.inputs, case.cache)
    merging.check_cold((merge, apart), one.inputs)
    return dict(key(model), **merging.totals_of(one.reports["direct"]), pairs=1, input_bytes=sum(map(os.path.getsize, one.inputs)),
                peak_bytes=merge.peak_bytes,
                samples={"merge": merge.samples, "two_hosts": apart.samples, "roof": roof.samples})
