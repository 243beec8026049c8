#!/usr/bin/env bash
# Files in the wrong place: rank directories, stages, experts, shard files and records exchanged, copied or taken from another save, and
# trackers that lie. Each is refused, or among what docs/using/provenance.md lists. Usage: provenance_test.sh SHARDWELD TESTS
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# fresh CASE: a copy of a fixture in $CASE, its step's directory in $STEP.
fresh() {
    CASE="$WORK/case"
    rm -rf "$CASE"
    mkdir "$CASE"
    cp -r "$TESTS/data/$1/source" "$CASE/source"
    STEP="$(find "$CASE/source" -maxdepth 1 -type d \( -name 'iter_*' -o -name release \))"
}

inspect() {
    expect_code "$1" "$SHARDWELD" inspect --local_dir "$CASE/source" "${@:2}"
}

exchange() {
    mv "$1" "$WORK/aside" && mv "$2" "$1" && mv "$WORK/aside" "$2"
}

# standing_of: the standing that inspect tells.
standing_of() {
    "$SHARDWELD" inspect --local_dir "$CASE/source" --json 2>/dev/null | python3 -c 'import json, sys
print(json.load(sys.stdin)["provenance"]["standing"])'
}

expect_standing() {
    local found
    found="$(standing_of)"
    [[ "$found" == "$1" ]] || fail "$2: $found, expected $1"
}

# Of twelve ranks the neighbours and the ends.
exchange_ranks() {
    local name="$1" dirs a b
    fresh "$name"
    dirs=("$STEP"/mp_rank_*)
    for ((a = 0; a < ${#dirs[@]}; a++)); do
        for ((b = a + 1; b < ${#dirs[@]}; b++)); do
            ((${#dirs[@]} <= 4 || b == a + 1 || b == ${#dirs[@]} - 1)) || continue
            exchange "${dirs[a]}" "${dirs[b]}"
            inspect 6 || fail "$name: ${dirs[a]##*/} exchanged with ${dirs[b]##*/}"
            exchange "${dirs[a]}" "${dirs[b]}"
        done
    done
    cp -r "${dirs[0]}" "$WORK/aside" && cp "${dirs[1]}"/* "${dirs[0]}"
    inspect 6 || fail "$name: ${dirs[1]##*/} copied over ${dirs[0]##*/}"
    rm -rf "$WORK/aside"
}

for case in "$TESTS"/data/megatron{,_more}/*legacy*/; do
    name="${case#"$TESTS/data/"}"
    name="${name%/}"
    fresh "$name"
    if [[ "$name" == *-made && "$name" != *release* ]]; then
        expect_standing consistent "$name" # args without ranks
    else
        expect_standing proved "$name"
        [[ "$name" == *release* ]] || exchange_ranks "$name" # one file
    fi
done

# Both claims are named.
fresh megatron/llama-tp4-legacy-bf16
exchange "$STEP/mp_rank_01" "$STEP/mp_rank_02"
inspect 6
expect_text "tp is 1 in mp_rank_01/model_optim_rng.pt (its name) but 2 in mp_rank_01/model_optim_rng.pt (args)"
expect_code 6 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$TESTS/data/megatron/llama-tp4-legacy-bf16/hf" --target_dir "$WORK/merged"
expect_absent "$WORK/merged"

# Without ranks in args: what a copy or a stage's end holds tells it; the rest is on the list.
fresh megatron/llama-mha-v1-tp2-legacy-made
cp "$STEP"/mp_rank_0{1,0}/model_optim_rng.pt
inspect 6
expect_text "hold the same bytes in all their"
fresh megatron/llama-mha-v0-tp2-pp2-legacy-made
for t in 00 01; do exchange "$STEP/mp_rank_${t}_000" "$STEP/mp_rank_${t}_001"; done
inspect 6
expect_text "stages were exchanged"
fresh megatron/llama-mha-v1-tp2-legacy-made
inspect 0
grep -q "2 files hold tensors like those of others" "$WORK/out" || fail "$(head -20 "$WORK/out")"

# Another save: of another run, of another step, and a directory or a tracker that is wrong about the step.
fresh megatron/llama-tp4-legacy-bf16
cp "$TESTS/data/megatron_more/qwen2-g2-tp4-legacy/source/iter_0000010/mp_rank_03/model_optim_rng.pt" "$STEP/mp_rank_03"
inspect 6
expect_text "in mp_rank_00/model_optim_rng.pt but"
fresh megatron/llama-tp4-legacy-bf16
mv "$STEP" "$CASE/source/iter_0000020"
echo 20 >"$CASE/source/latest_checkpointed_iteration.txt"
inspect 6
expect_text "iteration is 10 in mp_rank_00/model_optim_rng.pt (its state) but 20 in iter_0000020 (the directory's name)"
fresh megatron/qwen2-tp2-pp2-torchdist-bf16
mv "$STEP" "$CASE/source/iter_0000020"
echo 20 >"$CASE/source/latest_checkpointed_iteration.txt"
inspect 6
fresh megatron/qwen2-tied-tp2-zarr
mv "$STEP" "$CASE/source/iter_0000020"
echo 20 >"$CASE/source/latest_checkpointed_iteration.txt"
inspect 6
fresh megatron/llama-tp4-legacy-bf16
cp "$CASE"/source/latest_checkpointed_iteration.txt "$STEP"
inspect 0
echo 20 >"$STEP/latest_checkpointed_iteration.txt"
inspect 6
expect_text "20 in latest_checkpointed_iteration.txt (the tracker)"
fresh megatron/llama-tp4-legacy-bf16
cp -r "$STEP" "$CASE/source/iter_10"
inspect 6
expect_text "iter_0000010 and iter_10"

# A torch_dist save: no two shard files fit into each other's place; the index of another save fits none.
for name in megatron/{qwen2-tp2-pp2,qwen3moe-tp2-ep2,deepseekv3-mtp-pp2,llama-tp2-optim}-torchdist-bf16; do
    fresh "$name"
    expect_standing consistent "$name"
    files=("$STEP"/*.distcp)
    for ((a = 0; a + 1 < ${#files[@]}; a++)); do
        exchange "${files[a]}" "${files[a + 1]}"
        timeout 180 "$SHARDWELD" inspect --local_dir "$CASE/source" >"$WORK/out" 2>&1
        code=$?
        [[ $code == 4 || $code == 6 ]] || fail "$name: ${files[a]##*/} exchanged with the next: $code"
        exchange "${files[a]}" "${files[a + 1]}"
    done
done
fresh megatron/qwen2-tp2-pp2-torchdist-bf16
printf 'more' >>"$STEP/__1_0.distcp"
inspect 6
expect_text "by .metadata its last item ends at"

# Records within a file, under fitting CRC-32s.
for how in bytes names; do
    fresh megatron/llama-tp4-legacy-bf16
    python3 "$TESTS/support/exchange_records.py" "$STEP/mp_rank_02/model_optim_rng.pt" "$how"
    inspect 6
    expect_text "records were exchanged or replaced after torch.save"
done

# --strict, and what the report says.
report_standing() {
    python3 -c 'import json, sys
print(json.load(open(sys.argv[1]))["provenance"]["standing"])' "$WORK/report.json"
}
merge_strictly() {
    local dir="$WORK/strict-$1"
    cp -r "$TESTS/data/megatron/$1" "$dir"
    with_tokenizer "$dir"
    expect_code "$2" "$SHARDWELD" merge --local_dir "$dir/source" --hf_config "$dir/hf" --target_dir "$WORK/out-$1" --strict -q --report "$WORK/report.json" || return 1
    [[ "$(report_standing)" == "$3" ]] || fail "$1: $(report_standing) in the report"
}
merge_strictly llama-tp4-legacy-bf16 0 proved
merge_strictly qwen2-tp2-pp2-torchdist-bf16 0 consistent
# zarr: common.pt and the directory's name agree on the iteration; without it nothing but names tells.
merge_strictly qwen2-tied-tp2-zarr 0 consistent
fresh megatron/qwen2-tied-tp2-zarr
rm "$STEP/common.pt"
expect_standing unknown "zarr without common.pt"
expect_code 14 "$SHARDWELD" merge --local_dir "$CASE/source" --hf_config "$TESTS/data/megatron/qwen2-tied-tp2-zarr/hf" --target_dir "$WORK/unknown" --strict -q
expect_text "provenance_unknown"
finish
