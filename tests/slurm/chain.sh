# Merge, test and upload behind a training job; and nothing of it where one of them fails.
legacy="$TESTS/data/megatron/llama-tp4-legacy-bf16"
options=(--hf_config "$legacy/hf" --max_shard_size 100KB --overwrite)
export MERGE_SBATCH="--comment=chained" UPLOAD_SBATCH="-p transfer"
mkdir -p "$HOSTS/bin"
# The client's place is taken by one that notes what it is told; that of the Hub is tested elsewhere.
printf '#!/bin/sh\n[ "$2" = --help ] && { echo REPO_ID; exit 0; }\necho "$@" >>"%s/uploads"\n' "$HOSTS" >"$HOSTS/bin/hf"
chmod +x "$HOSTS/bin/hf"
export PATH="$HOSTS/bin:$PATH" HF_TOKEN=hf_nobodys

chain() { # NAME TRAINING-COMMAND: the chain's jobs in $jobs: training, merge, test, upload
    submit --hold --wrap "$2"
    mapfile -t jobs < <("$SCRIPTS/chain.sh" "$job" "$HOSTS/$1" "$HOSTS/$1-model" me/model "${options[@]}" 2>&1)
    [[ "${jobs[*]}" =~ ^merge\ [0-9]+\ test\ [0-9]+\ upload\ [0-9]+$ ]] || fail "the chain $1: ${jobs[*]}"
    jobs=("$job" "${jobs[@]##* }")
    scontrol release "$job"
}

chain trained "cp -r '$legacy/source' '$HOSTS/trained'"
good=("${jobs[@]}")
chain failed "exit 3"
failed=("${jobs[@]}")
chain damaged "cp -r '$legacy/source' '$HOSTS/damaged' && rm '$HOSTS'/damaged/iter_*/mp_rank_03/model_optim_rng.pt"
damaged=("${jobs[@]}")
for i in 0 1 2 3; do
    expect_end "${good[i]}" COMPLETED 0 "the chain's job $i"
done
same_as_expected "$legacy" "$HOSTS/trained-model"
expect_end "${failed[0]}" FAILED 3 "training"
expect_end "${damaged[1]}" FAILED 3 "a merge in the chain"
for behind in "${failed[@]:1}" "${damaged[@]:2}"; do
    expect_end "$behind" CANCELLED 0 "behind a failure"
done
expect_absent "$HOSTS/failed-model"
expect_absent "$HOSTS/damaged-model"
[[ "$(field "${good[1]}" Comment) $(field "${good[2]}" Comment) $(field "${good[3]}" Partition)" == "chained chained transfer" ]] || fail "the chain's options of sbatch"
[[ "$(<"$HOSTS/uploads")" == "upload me/model $HOSTS/trained-model"* && "$(wc -l <"$HOSTS/uploads")" == 1 ]] || fail "uploaded: $(cat "$HOSTS/uploads")"
