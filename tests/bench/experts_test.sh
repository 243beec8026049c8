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

merges() { # FORMAT RANKS-LIST MODEL-OPTIONS...
    local format=$1 model=("${@:3}")
    rm -rf "$work/$format"
    "$bin/make_checkpoint" "$work/$format" --format "$format" "${model[@]}"
    for ranks in $2; do
        mpirun -n "$ranks" --bind-to none "$bin/shardweld" merge --local_dir "$work/$format/source" \
            --hf_config "$work/$format/hf" --target_dir "$work/merged" --overwrite -q
        "$bin/make_checkpoint" --check "$work/merged" "${model[@]}"
    done
}

for format in legacy torch_dist fsdp; do
    merges "$format" "1 3" --model moe --tp 4 --pp 2 --ep 6 --etp 2
done
# All ranks hold all experts: one of them saves them.
merges torch_dist 1 --model moe --tp 2

# With the states of an optimizer: each master rounds to its weight, which reshape proves.
model=(--model moe --tp 4 --pp 2 --ep 6 --etp 2)
"$bin/make_checkpoint" "$work/states" --format torch_dist --states "${model[@]}"
"$bin/shardweld" reshape "$work/states/source" "$work/with_states" --to hf --state all --hf_config "$work/states/hf" -q
"$bin/make_checkpoint" --check "$work/with_states" "${model[@]}"
[[ $(ls "$work/with_states/optimizer" | wc -l) == 4 ]]
