"""docs/performance.md from docs/performance.json: tables between markers, the prose around them stays as it is. Knows the records; nothing of how
they are measured. Markers are lines `<!-- figures: NAME -->` and `<!-- end -->`."""
import re
import statistics

import records

_MARKED = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
_INPUTS = ("legacy", "torch_dist", "fsdp", "hf", "zero3")
_DTYPES = {"bf16": "bf16", "fp32_bf16": "fp32 to bf16"}


def render(page, content):
    """The page with all tables made anew; an unknown table's name is an error."""
    tables = {"machine": _runs, "merge": _merges, "peers": _peers, "launch": _launches, "memory": _memory, "bounds": _bounds}
    return _MARKED.sub(lambda found: f"{found[1]}\n{tables[found[2]](content)}\n{found[3]}", page)


def quartiles(values):
    """Lower quartile, median, upper quartile, interpolated between the values."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, statistics.median(values), high


def ratios(above, below):
    """Pair by pair."""
    return [a / b for a, b in zip(above, below, strict=True)]


def of_roof(record, speed="gbs"):
    """Percent of the roof, pair by pair: `gbs` from the first file made to the model published, `whole_gbs` with launch and planning."""
    return [100 * ratio for ratio in ratios(record["samples"]["merge"][speed], record["samples"]["roof"]["gbs"])]


def _spread(values, digits=2):
    low, middle, high = quartiles(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} - {high:.{digits}f})"


def _middle(values, digits=2):
    return f"{statistics.median(values):.{digits}f}"


def _mib(n_bytes):
    return f"{n_bytes / 2**20:.0f}"


def _table(heads, rows):
    if not rows:
        return "Not measured yet.\n"
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def _of_kind(content, kind):
    found = [record for record in content["records"].values() if re.fullmatch(kind, record["kind"])]
    return sorted(found, key=_order)


def _order(record):
    return (_INPUTS.index(record["input"]) if record["input"] in _INPUTS else 9, record["dtype"], record["kind"].partition("-")[0], record["gb"], record["kind"],
            record["ranks"], record["strategy"] != "direct", record["strategy"], record["cache"] != "warm", record["fsync"] != "no")


def _run_of(record):
    return record["machine"], record["tool"]["git"], record["tool"]["version"], record["date"]


def _run_numbers(content):
    """Records of the same day, machine and program are one run."""
    runs = sorted({_run_of(record) for record in content["records"].values()}, key=lambda run: (run[3], run))
    return {run: number for number, run in enumerate(runs, 1)}


def _runs(content):
    rows = []
    for run, number in _run_numbers(content).items():
        of = [record for record in content["records"].values() if _run_of(record) == run]
        machine = content["machines"][run[0]]
        loads = sorted(record["load"] for record in of if "load" in record)
        rows.append((number, run[3], f"{run[2]} ({run[1]})", f"{machine['cores']} x {machine['cpu']}, {machine['memory_gib']} GiB", machine["kernel"],
                     machine["file_system"], machine["mpi"], f"{loads[0]:.1f} - {loads[-1]:.1f}" if loads else "", len(of)))
    return _table(("run", "date", "shardweld", "machine", "kernel", "file system", "MPI", "load before a case", "cases"), rows)


def _merges(content):
    """One table for each input and dtype."""
    numbers = _run_numbers(content)
    groups = {}
    for record in _of_kind(content, "merge"):
        groups.setdefault((record["input"], record["dtype"]), []).append(_merge_row(record, numbers))
    heads = ("ranks", "strategy", "cache", "fsync", "GB", "`cp -r`, s", "roof, s", "merge, s", "merge / `cp -r`", "% of roof", "% of roof, all in", "CPU s: merge, `cp`",
             "MiB", "GB read, written, sent", "pairs", "run")
    return "\n".join(f"**{layout}, {_DTYPES[dtype]}**\n\n{_table(heads, rows)}" for (layout, dtype), rows in groups.items()) or _table(heads, [])


def _merge_row(record, numbers):
    merge, copy, roof = (record["samples"][side] for side in ("merge", "copy", "roof"))
    moved = ", ".join(f"{record[name] / 1e9:.2f}" for name in ("bytes_read", "bytes_written", "bytes_sent"))
    strategy = record["strategy"] if record["strategy"] == record["did"] else f"{record['strategy']} ({record['did']})"
    return (record["ranks"], strategy, record["cache"], record["fsync"], f"{record['gb']:g}", _middle(copy["wall_s"]), _middle(roof["wall_s"]),
            _middle(merge["wall_s"]), _spread(ratios(merge["wall_s"], copy["wall_s"])), _spread(of_roof(record), 0), _middle(of_roof(record, "whole_gbs"), 0),
            f"{_middle(merge['cpu_s'])}, {_middle(copy['cpu_s'])}", _mib(record["peak_bytes"]), moved, record["pairs"], numbers[_run_of(record)])


def _peers(content):
    numbers, rows = _run_numbers(content), []
    for record in _of_kind(content, "peer-.*"):
        peer, merge = record["samples"]["peer"], record["samples"].get("merge")
        gb = record["input_bytes"] / 1e9
        speeds = f"{gb / statistics.median(peer['work_s']):.2f}", f"{gb / statistics.median(merge['wall_s']):.2f}" if merge else "another input"
        ratio = (_spread(ratios(peer["work_s"], merge["wall_s"]), 1), _spread(ratios(peer["wall_s"], merge["wall_s"]), 1)) if merge else ("", "")
        rows.append((record["peer"], f"{record['input']}, {_DTYPES.get(record['dtype'], record['dtype'])}", f"{gb:.2f}", _middle(peer["work_s"]), _middle(peer["wall_s"]),
                     _middle(merge["wall_s"]) if merge else "", *speeds, *ratio, _mib(record["peer_peak_bytes"]), _mib(record["peak_bytes"]) if merge else "",
                     f"{record['peer_peak_bytes'] / record['peak_bytes']:.0f}" if merge else "", record["pairs"], numbers[_run_of(record)]))
    return _table(("peer", "input", "GB", "peer, s", "with imports, s", "merge, s", "peer, GB/s", "merge, GB/s", "times faster", "with imports", "peer, MiB", "merge, MiB",
                   "times less", "pairs", "run"), rows)


def _launches(content):
    numbers = _run_numbers(content)
    return _table(("ranks", "seconds in all", "CPU s", "runs", "run"),
                  [(record["ranks"], _spread(record["samples"]["merge"]["wall_s"]), _middle(record["samples"]["merge"]["cpu_s"]), record["pairs"],
                    numbers[_run_of(record)]) for record in _of_kind(content, "launch")])


def _memory(content):
    numbers = _run_numbers(content)
    return _table(("GB", "input", "command", "ranks", "peak, MiB, all ranks", "by its own count", "of that plan and metadata, MiB, a rank", "passes under RLIMIT_DATA of", "run"),
                  [(f"{record['gb']:g}", record["input"], "`" + record["kind"].split("-")[1] + "`", record["ranks"], _mib(record["peak_bytes"]),
                    _mib(record["own_peak_bytes"]), f"{record['metadata_bytes'] / 2**20:.1f}", f"{_mib(record['limit_bytes'])} MiB a rank", numbers[_run_of(record)])
                   for record in _of_kind(content, "memory-.*")])


def _bounds(content):
    """What is wanted of 2 ranks, the worst case of each line. CPU seconds: of direct merges, as decided for collective ones to be reported only."""
    two = [record for record in _of_kind(content, "merge") if record["ranks"] == 2]
    plain, cast = [r for r in two if r["dtype"] == "bf16"], [r for r in two if r["dtype"] == "fp32_bf16"]

    def some(among, **wanted):
        return [r for r in among if all(r[name] == value for name, value in wanted.items())]

    def wall(record):
        return statistics.median(ratios(record["samples"]["merge"]["wall_s"], record["samples"]["copy"]["wall_s"]))

    def cpu(record):
        return statistics.median(ratios(record["samples"]["merge"]["cpu_s"], record["samples"]["copy"]["cpu_s"]))

    def times(record):
        return statistics.median(ratios(record["samples"]["peer"]["work_s"], record["samples"]["merge"]["wall_s"]))

    def peers(name):
        return [r for r in _of_kind(content, f"peer-{name}") if "merge" in r["samples"]]

    lines = [("% of the roof", two, lambda r: statistics.median(of_roof(r)), ">=", 85), ("merge / `cp -r`, warm, no fsync", some(plain, cache="warm", fsync="no"), wall, "<=", 0.7),
             ("merge / `cp -r`, cold, no fsync", some(plain, cache="cold", fsync="no"), wall, "<=", 1.0), ("merge / `cp -r`, fsync", some(plain, fsync="yes"), wall, "<=", 0.8),
             ("merge / `cp -r`, fp32 to bf16", cast, wall, "<=", 0.7), ("CPU seconds / those of `cp`, direct", some(two, strategy="direct"), cpu, "<=", 1.5),
             ("faster than verl's FSDP merger, times", peers("verl_fsdp"), times, ">=", 10),
             ("faster than verl's Megatron merger, times", peers("verl_megatron"), times, ">=", 15),
             ("verl's memory / ours, all ranks", peers("verl_.*"), lambda r: r["peer_peak_bytes"] / r["peak_bytes"], ">=", 10),
             ("launch of 4 ranks, all in, s", some(_of_kind(content, "launch"), ranks=4), lambda r: statistics.median(r["samples"]["merge"]["wall_s"]), "<=", 1.0)]
    return _table(("what, 2 ranks", "wanted", "best", "worst", "worst case", "cases"), [row for line in lines for row in _bound_row(*line)])


def _bound_row(what, among, value, sign, bound):
    if not among:
        return []
    ordered = sorted(among, key=value, reverse=sign == ">=")
    worst = ordered[-1]
    case = f"{worst['input']}, {_DTYPES.get(worst['dtype'], worst['dtype'])}, {worst['strategy']}, {worst['cache']}, {'fsync' if worst['fsync'] == 'yes' else 'no fsync'}, {worst['gb']:g} GB"
    return [(what, f"{sign} {bound:g}", f"{value(ordered[0]):.2f}", f"{value(worst):.2f}", case, len(among))]


def line_of(record):
    """A record in one line, for who waits."""
    text = records.key_of(record)
    samples = record["samples"]
    if record["kind"] == "merge":
        text += f": merge / cp {_spread(ratios(samples['merge']['wall_s'], samples['copy']['wall_s']))}, {_middle(of_roof(record), 0)} % of the roof"
    elif "peer" in samples:
        text += f": peer {_middle(samples['peer']['work_s'])} s" + (f", merge {_middle(samples['merge']['wall_s'])} s" if "merge" in samples else "")
    elif "merge" in samples:
        text += f": {_spread(samples['merge']['wall_s'])} s"
    return f"{text}; {_mib(record['peak_bytes'])} MiB"


def update(page_path, json_path, check=False):
    """Writes the page; with `check` only says whether it is what the records make of it."""
    with open(page_path, encoding="utf-8") as file:
        page = file.read()
    rendered = render(page, records.load(json_path))
    if check or rendered == page:
        return rendered == page
    with open(page_path, "w", encoding="utf-8") as file:
        file.write(rendered)
    return True
