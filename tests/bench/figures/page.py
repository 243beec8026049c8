"""docs/measurements/performance.md from performance.json beside it. Knows the records and the page's tables; nothing of how they are measured."""
import os
import re
import statistics
import sys

import bounds
import records
from arithmetic import of_roof, quartiles, ratios

sys.path.append(os.path.join(os.path.dirname(__file__), "../../support"))
import marked_page
from marked_page import table as _table

_INPUTS = ("legacy", "torch_dist", "fsdp", "hf", "two hf", "lora", "dcp", "zero3", "mixed", "torch_dist states", "zero3 states")  # the order of rows
_DTYPES = {"bf16": "bf16", "fp32_bf16": "fp32 to bf16"}


def render(page, content):
    """The page with all tables made anew; an unknown table's name is an error."""
    return marked_page.render(page, _tables(), content)


def _tables():
    return {"machine": _runs, "merge": _merges, "peers": _peers, "quantise": _quantised, "reshape": _reshapes, "read": _reads, "mount": _mounts, "watch": _watches, "launch": _launches, "memory": _memory, "large": _large, "bounds": _bounds}


def _spread(values, digits=2):
    low, middle, high = quartiles(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} - {high:.{digits}f})"


def _middle(values, digits=2):
    return f"{statistics.median(values):.{digits}f}"


def _mib(n_bytes):
    return f"{n_bytes / 2**20:.0f}"


def _of_kind(content, kind):
    found = [record for record in content["records"].values() if re.fullmatch(kind, record["kind"])]
    return sorted(found, key=_order)


def _order(record):
    return (_INPUTS.index(record["input"]), record["dtype"], record["kind"].partition("-")[0], record["gb"], record["kind"], record["ranks"],
            record["strategy"] != "direct", record["strategy"], record["cache"] != "warm", record["fsync"] != "no")


def _run_of(record):
    return record["machine"], record["tool"]["git"], record["tool"]["version"], record["date"]


def _run_numbers(content):
    """Records of the same day, machine and program are one run."""
    runs = sorted({_run_of(record) for record in content["records"].values()}, key=lambda run: (run[3], run))
    return {run: number for number, run in enumerate(runs, 1)}


def _runs(content):
    """The machines, each with a letter, and the runs made on them."""
    letters = {machine: chr(ord("A") + at) for at, machine in enumerate(sorted(content["machines"]))}
    rows = []
    for run, number in _run_numbers(content).items():
        of = [record for record in content["records"].values() if _run_of(record) == run]
        loads = sorted(record["load"] for record in of if "load" in record)
        rows.append((number, run[3], run[1], letters[run[0]], f"{loads[0]:.1f} - {loads[-1]:.1f}" if loads else "", len(of)))
    return _machines(content, letters) + "\n" + _table(("run", "date", "commit", "machine", "load before a case", "cases"), rows)


def _machines(content, letters):
    machines = [(letter, content["machines"][name]) for name, letter in letters.items()]
    return "".join(f"- {letter}: {one['cores']} x {one['cpu']}, {one['memory_gib']} GiB, kernel {one['kernel']}, {one['file_system']}, {one['mpi']}\n"
                   for letter, one in machines)


def _merges(content):
    """One row for each case of full size; `auto` is held against the others in the bounds."""
    numbers = _run_numbers(content)
    heads = ("case", "ranks", "`cp -r`, s", "merge, s", "merge / `cp -r`", "% of roof", "MiB", "run")
    return _table(heads, [(_case(record), record["ranks"], *_merge_figures(record), numbers[_run_of(record)]) for record in _of_kind(content, "merge")
                          if record["gb"] == bounds.LEAST_GB and record["strategy"] != "auto"])


def _merge_figures(record):
    merge, copy = (record["samples"][side]["wall_s"] for side in ("merge", "copy"))
    return _middle(copy), _middle(merge), _spread(ratios(merge, copy)), _middle(of_roof(record), 0), _mib(record["peak_bytes"])


def _input(record):
    return f"{record['input']}, {_DTYPES.get(record['dtype'], record['dtype'])}"


def _peers(content):
    numbers = _run_numbers(content)
    heads = ("peer", "input", "GB", "peer, s", "with imports", "merge, s", "times faster", "peer, MiB", "merge, MiB", "bits", "run")
    return _table(heads, [(*_peer_row(record), numbers[_run_of(record)]) for record in _of_kind(content, "peer-.*")])


def _peer_row(record):
    """A peer measured alone has no merge beside it."""
    peer, merge, gb = record["samples"]["peer"], record["samples"].get("merge"), record["input_bytes"] / 1e9
    faster = ratios(peer["work_s"], merge["wall_s"]) if merge else []
    ours = (_middle(merge["wall_s"]), _spread(faster, 1) + (", slower" if statistics.median(faster) < 1 else "")) if merge else ("", "")
    return (record["peer"], _input(record), f"{gb:.2f}", _middle(peer["work_s"]), _middle(peer["wall_s"]), *ours, _mib(record["peer_peak_bytes"]),
            _mib(record["peak_bytes"]) if merge else "", _bits_of(record))


def _bits_of(record):
    """How far the results are from each other. Records without a count are of runs that ended where there was a difference."""
    found = record.get("difference", {})
    if not found.get("different"):
        return "equal"
    return f"{100 * found['different_elements'] / found['elements']:.2g} % of elements differ"


def _quantised(content):
    numbers = _run_numbers(content)
    heads = ("case", "GB", "bf16 merge, s", "merge, s", "merge / bf16", "CPU s, bf16 and merge", "peer", "peer, s", "times faster", "MiB, bf16 and merge", "peer, MiB", "run")
    return _table(heads, [(*_quantised_row(record), numbers[_run_of(record)]) for record in _of_kind(content, "quantise-.*")])


def _quantised_row(record):
    samples = record["samples"]
    bf16, merge, peer = samples["bf16"], samples["merge"], samples.get("peer")
    name = f"{record['kind'].partition('-')[2]}, {_case(record)}"
    cpu, memory = (f"{_middle(bf16['cpu_s'])}, {_middle(merge['cpu_s'])}", f"{_mib(record['bf16_peak_bytes'])}, {_mib(record['peak_bytes'])}")
    theirs = (record["peer"], _middle(peer["work_s"]), _spread(ratios(peer["work_s"], merge["wall_s"]), 1)) if peer else ("", "", "")
    return (name, f"{record['input_bytes'] / 1e9:.2f}", _middle(bf16["wall_s"]), _middle(merge["wall_s"]), _spread(ratios(merge["wall_s"], bf16["wall_s"])), cpu, *theirs,
            memory, _mib(record["peer_peak_bytes"]) if peer else "")


def _reshapes(content):
    numbers = _run_numbers(content)
    heads = ("from", "to", "GB", "`cp -r`, s", "reshape, s", "reshape / `cp -r`", "% of roof", "peer", "peer, s", "times faster", "MiB", "peer, MiB", "run")
    return _table(heads, [(*_reshape_row(record), numbers[_run_of(record)]) for record in _of_kind(content, "reshape-.*")])


def _reshape_row(record):
    ours, copy, peer = (record["samples"].get(side) for side in ("merge", "copy", "peer"))
    theirs = (record["peer"], _middle(peer["work_s"]), _spread(ratios(peer["work_s"], ours["wall_s"]), 1)) if peer else ("", "", "")
    return (_input(record), f"`{record['to']}`", f"{record['input_bytes'] / 1e9:.2f}", _middle(copy["wall_s"]), _middle(ours["wall_s"]),
            _spread(ratios(ours["wall_s"], copy["wall_s"])), _middle(of_roof(record), 0), *theirs, _mib(record["peak_bytes"]),
            _mib(record["peer_peak_bytes"]) if peer else "")


def _reads(content):
    numbers = _run_numbers(content)
    heads = ("case", "GB", "safe_open, s", "safetensors, s", "safe_open / safetensors", "torch's own, s", "CPU s", "own memory, MiB", "resident, MiB", "run")
    return _table(heads, [(*_read_row(record), numbers[_run_of(record)]) for record in _of_kind(content, "read")])


def _read_row(record):
    """Three figures stand for safe_open, safetensors and torch's own."""
    sides = list(record["samples"])
    ours, theirs, torch = (record["samples"][side] for side in sides)
    peaks = [record["peak_bytes"], *(record["peer_peak_bytes"][side] for side in sides[1:])]
    return (f"{_input(record)}, {record['cache']}", f"{record['input_bytes'] / 1e9:.2f}", _middle(ours["work_s"]), _middle(theirs["work_s"]),
            _spread(ratios(ours["work_s"], theirs["work_s"])), f"{_middle(torch['work_s'])} ({record['versions'][sides[2]].rpartition(' ')[2]})",
            ", ".join(_middle(side["work_cpu_s"], 1) for side in (ours, theirs, torch)), ", ".join(map(_mib, peaks)),
            ", ".join(_mib(record["resident_bytes"][side]) for side in sides))


def _mounts(content):
    """Speeds are those of plain reading divided by the seconds of others, pair by pair."""
    numbers = _run_numbers(content)
    rows = []
    for record in _of_kind(content, "mount"):
        samples = record["samples"]
        plain, through = samples["plain"]["wall_s"], samples.get("passthrough", {}).get("wall_s")
        rows.append((record["input"], f"{record['input_bytes'] / 1e9:.2f}", _middle(plain), _spread(ratios(plain, samples["mount"]["wall_s"])),
                     _spread(ratios(plain, through)) if through else "", _spread(ratios(plain, samples["mount"]["second_s"])),
                     ", ".join(_middle(samples[side]["cpu_s"]) for side in ("plain", "mount", "passthrough") if side in samples),
                     _spread(ratios(samples["copy"]["wall_s"], samples["merge"]["wall_s"])), _middle(samples["mount"]["ready_s"]), _mib(record["peak_bytes"]),
                     numbers[_run_of(record)]))
    return _table(("input", "GB", "plain reading, s", "speed of the first reading", "of a pass-through", "of the second reading", "CPU s: plain, mount, pass-through", "`cp -r` out of it / merge",
                   "ready, s", "MiB", "run"), rows)


def _watches(content):
    """Ratios to the job alone, pair by pair."""
    numbers = _run_numbers(content)
    rows = []
    for record in _of_kind(content, "watch"):
        alone, *beside = (record["samples"][side]["wall_s"] for side in ("alone", "limited", "polite", "greedy"))
        rows.append((f"{record['input_bytes'] / 1e9:.2f}", _middle(alone), *(f"{_spread(ratios(walls, alone))}" for walls in beside), numbers[_run_of(record)]))
    return _table(("saved, GB", "alone, s", "beside `--bw_limit 200MB`", "beside a watch", "beside `--polite no`", "run"), rows)


def _launches(content):
    numbers = _run_numbers(content)
    return _table(("ranks", "seconds in all", "CPU s", "runs", "run"),
                  [(record["ranks"], _spread(record["samples"]["merge"]["wall_s"]), _middle(record["samples"]["merge"]["cpu_s"]), record["pairs"],
                    numbers[_run_of(record)]) for record in _of_kind(content, "launch")])


def _memory(content):
    numbers = _run_numbers(content)
    heads = ("GB", "input", "command", "ranks", "GB/s", "peak of all ranks, MiB", "metadata of a rank, MiB", "passes under RLIMIT_DATA of", "run")
    return _table(heads, [(f"{record['gb']:g}", record["input"], "`" + record["kind"].split("-")[1] + "`", record["ranks"],
                           f"{record['gb'] / record['wall_s']:.1f}" if "wall_s" in record else "", _mib(record["peak_bytes"]),
                           f"{record['metadata_bytes'] / 2**20:.1f}", f"{_mib(record['limit_bytes'])} MiB", numbers[_run_of(record)])
                          for record in _of_kind(content, "memory-.*")])


def _large(content):
    numbers = _run_numbers(content)
    heads = ("input", "GB", "plain copying, s", "merge, s", "GB/s", "% of roof", "on two hosts, s", "MiB of all ranks", "run")
    rows = []
    for record in _of_kind(content, "large"):
        gb, roof, merge, apart = record["input_bytes"] / 1e9, *(record["samples"][side]["wall_s"] for side in ("roof", "merge", "two_hosts"))
        rows.append((record["input"], f"{gb:.2f}", _middle(roof, 0), _middle(merge, 0), f"{gb / merge[0]:.2f}", _middle([100 * value for value in ratios(roof, merge)], 0),
                     _middle(apart, 0), _mib(record["peak_bytes"]), numbers[_run_of(record)]))
    return _table(heads, rows)


def _bounds(content):
    rows = []
    for bound in bounds.BOUNDS:
        values = sorted(bound.values(content["records"]), key=lambda pair: pair[0], reverse=bound.sign == ">=")
        if values:
            worst, record = values[-1]
            case = f"{_case(record)}, {record['gb']:g} GB"
            rows.append((bound.what, f"{bound.sign} {bound.limit:g}", f"{values[0][0]:.2f}", f"{worst:.2f}", case, len(values)))
    return _table(("what", "wanted", "best", "worst", "worst case", "cases"), rows)


def _case(record):
    fsync = "fsync" if record["fsync"] == "yes" else "no fsync"
    return ", ".join((_input(record), record["strategy"], record["cache"], fsync))


def line_of(record):
    """A record in one line, for who waits."""
    text = records.key_of(record)
    samples = record["samples"]
    if record["kind"] == "merge":
        text += f": merge / cp {_spread(ratios(samples['merge']['wall_s'], samples['copy']['wall_s']))}, {_middle(of_roof(record), 0)} % of the roof"
    elif "bf16" in samples:
        text += f": merge / bf16 {_spread(ratios(samples['merge']['wall_s'], samples['bf16']['wall_s']))}"
        text += f", times faster {_spread(ratios(samples['peer']['work_s'], samples['merge']['wall_s']), 1)}" if "peer" in samples else ""
    elif "safetensors" in samples:
        text += f": safe_open / safetensors {_spread(ratios(samples['safe_open']['work_s'], samples['safetensors']['work_s']))}"
    elif "plain" in samples:
        text += "".join(f", {name} {_spread(ratios(samples['plain']['wall_s'], walls))}" for name, walls in (
            ("first", samples["mount"]["wall_s"]), ("second", samples["mount"]["second_s"]), ("pass-through", samples.get("passthrough", {}).get("wall_s"))) if walls)
        text += f"; copy / merge {_spread(ratios(samples['copy']['wall_s'], samples['merge']['wall_s']))}"
    elif "roof" in samples:
        text += f": {_spread(samples['merge']['wall_s'])} s, {_middle(of_roof(record), 0)} % of the roof"
        text += f", times faster {_spread(ratios(samples['peer']['work_s'], samples['merge']['wall_s']), 1)}" if "peer" in samples else ""
    elif "alone" in samples:
        text += "".join(f", {side} {_spread(ratios(samples[side]['wall_s'], samples['alone']['wall_s']))}" for side in ("limited", "polite", "greedy"))
    elif "peer" in samples:
        text += f": peer {_middle(samples['peer']['work_s'])} s" + (f", merge {_middle(samples['merge']['wall_s'])} s" if "merge" in samples else "") + f", bits {_bits_of(record)}"
    elif "merge" in samples:
        text += f": {_spread(samples['merge']['wall_s'])} s"
    return f"{text}; {_mib(record['peak_bytes'])} MiB"


def update(page_path, json_path, check=False):
    """Writes the page; with `check` only says whether it is what the records make of it."""
    return marked_page.update(page_path, _tables(), records.load(json_path), check)
