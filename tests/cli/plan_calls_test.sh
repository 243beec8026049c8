#!/usr/bin/env bash
# What plan asks of a metadata server and brings into memory: at most two calls for each file of a checkpoint, each directory listed once, few bytes
# beyond those that are read, and all of it in proportion to the files. Counted with strace.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
make="$(dirname "$SHARDWELD")/make_checkpoint"
strace -o /dev/null true 2>/dev/null || { echo "no strace that may trace"; exit 77; }

# counted NAME RANKS MAKE_OPTIONS...: plans a checkpoint that is made so; the counts lie in $WORK/NAME.json.
counted() {
    local name="$1" ranks="$2" launcher=()
    shift 2
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    "$make" "$WORK/$name" "$@" >"$WORK/log" || fail "no checkpoint: $(<"$WORK/log")"
    python3 "$TESTS/support/count_calls.py" "$WORK/$name/source" "${launcher[@]}" "$SHARDWELD" plan --local_dir "$WORK/$name/source" \
        --hf_config "$WORK/$name/hf" -q >"$WORK/$name.json" || fail "$name: code $?"
    rm -rf "${WORK:?}/$name"
}

moe=(--sparse --model 671b --layers 4 --tp 2)
for format in legacy torch_dist; do
    counted "$format-1" 1 --format $format "${moe[@]}" --pp 1 --ep 8 --writers 1
    counted "$format-4" 1 --format $format "${moe[@]}" --pp 4 --ep 8 --writers 1
done
counted fsdp-1 1 --sparse --format fsdp --model 671b --layers 4 --tp 4 --pp 1
counted fsdp-4 1 --sparse --format fsdp --model 671b --layers 4 --tp 4 --pp 4
# With the checksums that torch writes.
counted sums 1 --gb 0.1 --format legacy --tp 2 --pp 2
counted torch_dist-ranks 3 --format torch_dist "${moe[@]}" --pp 4 --ep 8 --writers 1

python3 - "$WORK" "$(stat -f -c %T "$WORK")" <<'P' || fail "too many calls"
import json, pathlib, sys
found = {path.stem: json.loads(path.read_text()) for path in pathlib.Path(sys.argv[1]).glob("*.json")}
FIXED = 60  # for what there is once: .metadata, common.pt, the directories above
for name, one in found.items():
    print(name, one)
    assert one["files"] >= 4 and one["reads"] >= one["files"] - 4, name
    assert one["median_of_a_file"] <= 2, name
    assert one["calls_on_files"] <= 2 * one["files"] + FIXED, name
    assert one["median_of_a_directory"] <= 4 or one["directories"] <= 3, name  # open, fstat, the entries, and that there are no more
    assert one["calls_on_directories"] <= 4 * one["directories"] + FIXED, name
    # Of legacy files without checksums some bytes of eight places are compared, and a page is the least that is brought in.
    pages = 8 * 4096 * one["files"] if name.startswith("legacy") else 65536
    assert sys.argv[2] == "tmpfs" or one["bytes_in_memory"] <= 1.2 * one["bytes_of_pages_asked"] + pages, name
for format in ("legacy", "torch_dist", "fsdp"):
    few, many = found[format + "-1"], found[format + "-4"]
    more = many["files"] - few["files"]
    assert more >= 12, format
    assert many["calls_on_files"] - few["calls_on_files"] <= 2 * more, format
    assert many["calls_on_directories"] - few["calls_on_directories"] <= 4 * (many["directories"] - few["directories"]), format
P
finish
