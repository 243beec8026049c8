#!/usr/bin/env bash
# experts_test.sh BIN DIR: checkpoints of a small model with latent attention and experts, in each format and
# on a grid where experts are cut in another way than the rest, merge into the values they must have.
set -euo pipefail
bin=$1
mkdir -p "$2"
work=$(mktemp -d "$2/experts.XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

model=(--model moe --tp 4 --pp 2 --ep 6 --etp 2)
for format in legacy torch_dist fsdp; do
    "$bin/make_checkpoint" "$work/$format" --format "$format" "${model[@]}"
    for ranks in 1 3; do
        mpirun -n "$ranks" --bind-to none "$bin/shardweld" merge --local_dir "$work/$format/source" \
            --hf_config "$work/$format/hf" --target_dir "$work/merged" --overwrite -q
        "$bin/make_checkpoint" --check "$work/merged" "${model[@]}"
    done
done
