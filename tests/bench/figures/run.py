"""Times merges beside `cp -r`, plain parallel copying and other mergers, and keeps the figures. Called by scripts/bench.sh; --help says more."""
import argparse
import itertools
import os
import sys
import tempfile
import time

import averaging
import large
import merging
import mounting
import page
import peers
import quantising
import reading
import records
import reshaping
import small
import watching
from place import Model, Place
from process import Failed

ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))
ABOUT = """Times merges of synthetic checkpoints in interleaved runs, keeps all samples in docs/measurements/performance.json and renders docs/measurements/performance.md from it.

kinds:
  merge   beside `cp -r` of the same files and plain parallel copying of them, for each format, dtype, number of ranks, cache
          and fsync; all strategies in the same run
  peer    beside other mergers and converters, in a Python that has them (--python): verl's for FSDP and Megatron, DeepSpeed's zero_to_fp32; consolidation of
          HuggingFace shards by torch and by transformers, dcp_to_torch_save, megatron-core's load and save; an average by mergekit, a LoRA fold by PEFT,
          Q8_0 by llama.cpp's convert_hf_to_gguf.py, which PYTHONPATH leads to
  average of four checkpoints of several formats, beside plain parallel reading of them (--gb: of each, 1)
  quantise fp8-block and w8a16 of an FSDP checkpoint beside its bf16 merge; without fsync beside the functions of transformers and compressed-tensors
          (--python) over the merged model, too
  reshape training checkpoints of a model, and rank files of a legacy checkpoint, beside `cp -r` of the input, plain parallel copying of it and, for
          torch_dist and DCP, the framework's own save (--python: torch, safetensors and megatron-core);
          optimizer states beside torch's own copying and DeepSpeed's converter (torch, transformers and deepspeed)
  read    all tensors through Python's shardweld.safe_open, beside safetensors over the merged model and torch.load or DCP (--python, which has torch and
          safetensors; the module is taken from beside --bin)
  mount   a mounted checkpoint read twice, and copied, beside plain reading of the merged files, the merge, and libfuse's pass-through of the merged
          files (--passthrough), warm; root, whose mounts are asked for 1 MiB at a time
  watch   what `shardweld watch` costs a job that saves 1 GB beside it, as it comes, throttled, and without its manners (--gb: of the step that it
          merges meanwhile, 8)
  launch  a merge of next to nothing
  memory  checkpoints of holes of growing size
  large   one run of a real checkpoint (--gb: 40, three times as much on the disk), cold and synced, on one host and on two that are namespaces (root)

Each pair runs all sides one after the other, in an order that changes. Before each run, outside its time, file systems are synced, the machine rests for
4 s and the input is brought into the page cache (warm) or out of it (cold), which mincore(2) has to confirm; afterwards outputs and reports are removed. With fsync a merge syncs what it
writes, `cp -r` is followed by sync of its files and directories, plain copying syncs each file. The first run of each side is not timed: its memory is sampled
(anonymous and shared memory of all its processes together, every 5 ms) and its output is compared with the values it must have. CPU seconds are user
and system time of all processes, from wait4(2).

A record takes the place of the one of the same case; all others stay. --continue leaves out what this revision of the program has measured at this size,
--seconds ends between cases: the same command again and again finishes a long list in pieces. Exit code 0: all cases measured; 3: out of time, call
again."""


def values_in(text):
    return text.split(",")


def listed(*known, default=None, note=""):
    """An option whose value is a LIST of some of `known`; without a default all of them."""

    def read(text):
        unknown = [value for value in values_in(text) if value not in known]
        if unknown:
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not among {', '.join(known)}")
        return values_in(text)

    return {"type": read, "default": list(default or known), "help": f"LIST of {','.join(known)}{note}"}


def arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench.sh", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", **listed("merge", "average", "peer", "quantise", "reshape", "read", "mount", "watch", "launch", "memory", "large", default=["merge", "launch"], note=" (default merge,launch)"))
    parser.add_argument("--gb", type=float, help="size of the checkpoint's tensors (4; peers: 2, mergekit: 4 of each model)")
    parser.add_argument("--pairs", type=int, help="runs of each side (9; quantise, reshape, read, mount: 5; peers: 2)")
    parser.add_argument("--format", **listed("legacy", "torch_dist", "fsdp"))
    parser.add_argument("--dtype", **listed("bf16", "fp32_bf16"))
    parser.add_argument("--ranks", type=values_in, default=["2", "1", "4"], help="LIST of numbers (2,1,4)")
    parser.add_argument("--strategy", **listed("direct", "collective", "auto", default=["direct", "collective"], note="; one rank is direct only"))
    parser.add_argument("--cache", **listed("warm", "cold"))
    parser.add_argument("--fsync", **listed("no", "yes"))
    parser.add_argument("--peer", **listed(*peers.PEERS))
    parser.add_argument("--form", **listed(*reshaping.ROUTES))
    parser.add_argument("--python", default=os.environ.get("SHARDWELD_PYTHON", "python3"), help="for peers, reshape and read ($SHARDWELD_PYTHON, python3)")
    parser.add_argument("--passthrough", default="", help="libfuse's example passthrough_hp or passthrough_ll, built: the roof of mounts")
    parser.add_argument("--memory", type=values_in, default=["merge-1", "merge-4", "test-1", "test-8", "test-64"],
                        help="LIST of COMMAND-GB[-FORMAT]: merge writes as much to the disk, test writes nothing; more than 500 GB lie in "
                             "thousands of files with test-1000-torch_dist (merge-1,merge-4,test-1,test-8,test-64)")
    parser.add_argument("--dir", default=os.path.join(tempfile.gettempdir(), "shardweld-bench"), help="where to work; keeps checkpoints for the next time")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="where the programs are (build/bin)")
    parser.add_argument("--json", default=os.path.join(ROOT, "docs/measurements/performance.json"), help="where records are kept")
    parser.add_argument("--page", default=os.path.join(ROOT, "docs/measurements/performance.md"), help="what is rendered from them")
    parser.add_argument("--continue", dest="is_continued", action="store_true", help="leave out cases that are measured")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no case after so long")
    parser.add_argument("--clean", action="store_true", help="remove each checkpoint behind its last case")
    parser.add_argument("--list", action="store_true", help="only print the cases")
    parser.add_argument("--quick", action="store_true", help="each value of each option once, 20 MB, 1 pair, figures thrown away: does everything work?")
    parser.add_argument("--render", action="store_true", help="only render the page")
    parser.add_argument("--check", action="store_true", help="only say whether the page is what the records make of it")
    return parser.parse_args()


def merge_cases(given):
    """(case, strategies) of what was asked for; --quick takes every seventh, in which each value of each option occurs."""
    cases = []
    for layout, dtype, ranks, cache, fsync in itertools.product(given.format, given.dtype, given.ranks, given.cache, given.fsync):
        strategies = [name for name in given.strategy if int(ranks) > 1 or name != "collective"]
        if strategies:
            cases.append((merging.Case(Model(layout, dtype, given.gb or 4), int(ranks), cache, fsync), strategies))
    return cases[::7] if given.quick else cases


def jobs(given):
    """Everything asked for, as (beginnings of its records, function of a place that measures them, models used)."""
    if "merge" in given.kind:
        n_pairs = given.pairs or 9
        for case, strategies in merge_cases(given):
            yield ([dict(case.record(name), pairs=n_pairs) for name in strategies], lambda place, c=case, s=strategies: merging.measure(place, c, s, n_pairs),
                   [case.model])
    if "average" in given.kind:
        n_averages = given.pairs or 9
        for ranks, cache in itertools.product(map(int, given.ranks), given.cache):
            yield ([dict(averaging.key(given.gb or 1, ranks, cache), pairs=n_averages)],
                   lambda place, n=ranks, c=cache: [averaging.record(place, given.gb or 1, n, c, n_averages)], [])
    if "launch" in given.kind:
        for ranks in map(int, given.ranks):
            n_launches = given.pairs or 9
            yield [dict(small.launch_key(ranks), pairs=n_launches)], lambda place, n=ranks: [small.launch_record(place, n, n_launches)], []
    if "peer" in given.kind:
        peer_pairs = given.pairs or 2
        for name in given.peer:
            peer_gb = given.gb or peers.PEERS[name].gb
            yield [dict(peers.key(name, peer_gb), pairs=peer_pairs)], lambda place, n=name, g=peer_gb: [peers.record(place, n, g, peer_pairs, given.python)], []
    if "quantise" in given.kind:
        gb, n_runs = given.gb or 4, given.pairs or 5
        for fsync in given.fsync:
            yield ([dict(key, pairs=n_runs) for key in quantising.keys(gb, fsync)],
                   lambda place, f=fsync: quantising.measure(place, gb, f, n_runs, given.python), [])
    if "reshape" in given.kind:
        gb, n_reshapes = given.gb or 4, given.pairs or 5
        for form in given.form:
            yield ([dict(reshaping.key(form, gb), pairs=n_reshapes)],
                   lambda place, f=form: [reshaping.record(place, f, gb, n_reshapes, given.python)], [])
    if "read" in given.kind:
        gb, n_reads = given.gb or 4, given.pairs or 5
        for layout, cache in itertools.product([name for name in given.format if name in reading.TORCH], given.cache):
            yield ([dict(reading.key(layout, gb, cache), pairs=n_reads)],
                   lambda place, l=layout, c=cache: [reading.record(place, l, gb, c, n_reads, given.python)], [])
    if "mount" in given.kind:
        gb, n_mounts = given.gb or 4, given.pairs or 5
        for layout in given.format:
            yield ([dict(mounting.key(layout, gb), pairs=n_mounts)],
                   lambda place, l=layout: [mounting.record(place, l, gb, n_mounts, given.passthrough)], [])
    if "watch" in given.kind:
        watched_gb, n_saves = given.gb or 8, given.pairs or 5
        yield [dict(watching.key(watched_gb), pairs=n_saves)], lambda place: [watching.record(place, watched_gb, n_saves)], []
    if "large" in given.kind:
        for layout in given.format:
            large_model = Model(layout, "bf16", given.gb or 40)
            yield [dict(large.key(large_model), pairs=1)], lambda place, m=large_model: [large.record(place, m)], [large_model]
    if "memory" in given.kind:
        for item in given.memory:
            how, size, layout = (item + "-legacy").split("-")[:3]
            case = how, float(size), layout
            yield [dict(small.memory_key(*case), pairs=1)], lambda place, c=case: [small.memory_record(place, *c)], []


def is_measured(beginnings, known, tool):
    """Whether records of the same program hold each of the cases, as large and with as many pairs."""
    found = [known.get(records.key_of(beginning)) for beginning in beginnings]
    return all(record and record["tool"] == tool and record["gb"] == beginning["gb"] and record["pairs"] >= beginning["pairs"]
               for record, beginning in zip(found, beginnings))


def measure(given):
    begin = time.monotonic()
    with Place(given.dir, given.bin) as place:
        machine, tool = records.machine_at(place.directory), place.version()
        known = records.load(given.json)["records"]
        todo = [job for job in jobs(given) if not (given.is_continued and is_measured(job[0], known, tool))]
        for number, (beginnings, run, models) in enumerate(todo, 1):
            if time.monotonic() - begin > given.seconds:
                print(f"out of time: {len(todo) - number + 1} of {len(todo)} cases left", flush=True)
                return 3
            load = os.getloadavg()[0]
            for record in run(place):
                records.put(given.json, dict(record, tool=tool, load=round(load, 2)), machine)
                print(f"[{number}/{len(todo)}, {time.monotonic() - begin:.0f} s] {page.line_of(record)}", flush=True)
            for model in models:
                if given.clean and not any(model in later[2] for later in todo[number:]):
                    place.forget(model)
    return 0


def main():
    given = arguments()
    if given.quick:
        given.gb, given.pairs, given.ranks = 0.02, 1, ["3", "1"]
        given.json, given.page = os.path.join(given.dir, "performance.json"), None
    if given.list:
        print("\n".join(records.key_of(beginning) for job in jobs(given) for beginning in job[0]))
        return 0
    if given.check:
        if page.update(given.page, given.json, check=True):
            return 0
        print(f"{given.page} is not what {given.json} renders to: edit prose outside of the markers only, and run scripts/bench.sh --render")
        return 1
    code = 0 if given.render else measure(given)
    if given.page:
        page.update(given.page, given.json)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"bench: {failure}", file=sys.stderr)
        sys.exit(1)
