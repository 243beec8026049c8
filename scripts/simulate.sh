#!/usr/bin/env bash
# Simulates merges of giants on the machines of tests/bench/machines.json at 1 to 512 ranks, and draws
# docs/measurements/scaling.svg. Needs simulate_merge and make_checkpoint, python3, 3 GB of disk and some minutes.
# usage: scripts/simulate.sh [DIR with the programs]   prints the table of docs/measurements/scaling.md
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=${1:-build/bin}
work=$(mktemp -d "${TMPDIR:-/tmp}/shardweld-simulate.XXXXXX")
trap 'rm -rf "$work"' EXIT

simulate() { # NAME FILE MAKE_OPTIONS...
    local name=$1 lines=$2
    shift 2
    "$bin/make_checkpoint" "$work/model" --sparse "$@" >/dev/null
    "$bin/simulate_merge" "$work/model/source" --hf_config "$work/model/hf" --machines tests/bench/machines.json \
        --name "$name" >"$work/$lines"
    rm -rf "$work/model"
}

simulate "671B, FSDP, 256 files" fsdp.jsonl --model 671b --format fsdp --tp 16 --pp 16
simulate "671B, legacy, 4,096 files" legacy.jsonl --model 671b --format legacy --tp 8 --pp 16 --ep 64 --etp 4
simulate "1T, torch_dist, 4,096 files" dist.jsonl --model 1t --format torch_dist --tp 8 --pp 16 --ep 64 --etp 4 --writers 1
python3 scripts/plot_scaling.py "$work/fsdp.jsonl" "$work/legacy.jsonl" "$work/dist.jsonl" --svg docs/measurements/scaling.svg --table "$work/table"
cat "$work/table"
