#!/usr/bin/env bash
# traffic_test.sh BIN DIR TESTS: what `plan` says that every rank reads, sends and writes is what the ranks of a
# real merge did, by either strategy.
set -euo pipefail
bin=$1 tests=$3
mkdir -p "$2"
work=$(mktemp -d "$2/traffic.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
runs=0

compare() { # NAME DIR RANKS STRATEGY [small]
    local options=(--local_dir "$2/source" --hf_config "$2/hf" --strategy "$4" -q)
    mpirun -n "$3" --bind-to none "$bin/shardweld" merge "${options[@]}" --target_dir "$work/merged" --overwrite \
        --report "$work/report.json"
    "$bin/shardweld" plan "${options[@]}" --ranks "$3" --json >"$work/plan.json"
    python3 "$tests/support/compare_traffic.py" "$work/plan.json" "$work/report.json" "${@:5}" || {
        echo "FAILED: $1, $3 ranks, $4"
        exit 1
    }
    runs=$((runs + 1))
}

# Pieces of several megabytes: rounds cut them. Experts: replicas, and cuts unlike those of the rest.
"$bin/make_checkpoint" "$work/legacy" --gb 0.05 --format legacy --tp 4 --pp 2
"$bin/make_checkpoint" "$work/torch_dist" --gb 0.05 --format torch_dist --tp 2 --pp 2
"$bin/make_checkpoint" "$work/fsdp" --gb 0.05 --format fsdp --tp 4
"$bin/make_checkpoint" "$work/experts" --model moe --format legacy --tp 4 --pp 2 --ep 6 --etp 2
for strategy in direct collective; do
    compare legacy "$work/legacy" 2 "$strategy"
    compare legacy "$work/legacy" 5 "$strategy"
    compare torch_dist "$work/torch_dist" 3 "$strategy"
    compare fsdp "$work/fsdp" 2 "$strategy"
    compare experts "$work/experts" 4 "$strategy" small
    compare stages "$tests/data/megatron/deepseekv3-mtp-pp2-torchdist-bf16" 3 "$strategy" small
done
echo "$runs merges did what their plans said"
