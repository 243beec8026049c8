#!/usr/bin/env bash
# --delta_dir of merge and watch: the very files that the command delta writes, one version for each step, whatever is killed or fails.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
cd "$WORK" || exit 1
DCP="$TESTS/data/torch/dcp_w2_bf16_qwen2"

models() {
    python3 "$TESTS/support/delta_models.py" "$@" || fail "models: $*"
}
python="${SHARDWELD_PYTHON:-python3}"
has_receiver=1
"$python" -c 'import xxhash, zstandard' 2>/dev/null || { has_receiver=0; echo "SKIPPED in part: $python has not both of xxhash and zstandard"; }
[[ ",${SHARDWELD_REQUIRE:-}," != *,delta,* ]] || ((has_receiver)) || fail "delta is required"

# receives VERSION OLD NEW MADE: in the terms of engines' receivers, which shardweld has no part in.
receives() {
    ((has_receiver)) || return 0
    "$python" "$TESTS/support/delta_models.py" apply "$1" "$2" "$4" && models same "$4" "$3" || fail "$1 does not make $3 of $2"
}

# m0 to m4: the models of five steps, of which a few elements change from one to the next; c1 to c4: the checkpoints that they are merged from.
expect_code 0 "$SHARDWELD" merge "$DCP/source" m0 --hf_config "$DCP/hf" -q --no_fsync --no_card
for step in 1 2 3 4; do
    models step "m$((step - 1))" "m$step" 0.03 "$step"
    expect_code 0 "$SHARDWELD" reshape "m$step" "c$step" --to dcp:world=2 -q --no_fsync
done
for step in 1 2 3 4; do
    expect_code 0 "$SHARDWELD" delta "m$((step - 1))" "m$step" told -q
done
version() { # NUMBER DIR: the version is what the command writes
    same_files "told/weight_v00000$1" "$2/weight_v00000$1" "$2, version $1"
}
merging=("$SHARDWELD" merge --no_fsync -q)

# Behind a merge, with one rank and with three: the files that the command writes, from which a receiver makes the model.
for ranks in 1 3; do
    deltas="deltas-$ranks"
    for step in 1 2; do
        expect_code 0 mpirun -n "$ranks" "${merging[@]}" "c$step" "out-$ranks-$step" --delta_against "$([[ $step == 1 ]] && echo m0 || echo "out-$ranks-1")" --delta_dir "$deltas"
        version "$step" "$deltas"
    done
    [[ "$(ls -A "$deltas")" == $'weight_v000001\nweight_v000002' ]] || fail "in $deltas: $(ls -A "$deltas")"
    receives "$deltas/weight_v000001" m0 "out-$ranks-1" "r$ranks-1"
    ((has_receiver)) && receives "$deltas/weight_v000002" "r$ranks-1" "out-$ranks-2" "r$ranks-2"
done

# Held back: 245 kB and more, at 100 kB a second.
begin="$(date +%s)"
expect_code 0 mpirun -n 2 "$SHARDWELD" delta m0 m1 slowly --bw_limit 100K
(($(date +%s) - begin >= 2)) || fail "--bw_limit does not hold the command back"

# A model that is complete gets the delta that is missing, and none twice.
expect_code 0 "${merging[@]}" c1 late --delta_against m0 --delta_dir late_deltas --if_complete skip
for turn in 1 2; do
    expect_code 0 mpirun -n "$turn" "$SHARDWELD" merge c1 late --no_fsync --delta_against m0 --delta_dir late_deltas --if_complete skip
    expect_text "late_deltas/weight_v000001 leads to the model already"
done
rm -rf late_deltas
expect_code 0 mpirun -n 3 "${merging[@]}" c1 late --delta_against m0 --delta_dir late_deltas --if_complete skip
version 1 late_deltas
[[ "$(ls -A late_deltas)" == weight_v000001 ]] || fail "made twice: $(ls -A late_deltas)"
expect_code 2 "${merging[@]}" c1 late --delta_against late --delta_dir late_deltas --if_complete skip && expect_text "is the target"

# Refused before anything is read: by itself, with what is no model in safetensors, from what is none, into what cannot be written.
refused() { # CODE TEXT OPTIONS...
    expect_code "$1" "${merging[@]}" c1 none "${@:3}" && expect_text "$2"
}
refused 2 "add --delta_dir DIR" --delta_against m0
refused 2 "add --delta_against PREV" --delta_dir d
refused 2 "not for GGUF" --delta_against m0 --delta_dir d --quantize gguf:q8_0
refused 2 "not for hdf5" --delta_against m0 --delta_dir d --output_format hdf5
refused 2 "not for training checkpoints" --delta_against m0 --delta_dir d --to fsdp:world=2
refused 2 "is the target" --delta_against none --delta_dir d
refused 2 "is the target, or lies in it" --delta_against m0 --delta_dir none/d
refused 3 "absent" --delta_against absent --delta_dir d
refused 3 "c2" --delta_against c2 --delta_dir d
refused 3 "is not a directory" --delta_against m0 --delta_dir m0/config.json
cp -r m0 short && truncate -s -1 short/model.safetensors
refused 4 "short" --delta_against short --delta_dir d
cp -r told others && sed -i 's/xxh3-128/blake3/' others/weight_v000004/model.safetensors.index.json
refused 5 "does not say that its checksums are xxh3-128" --delta_against m0 --delta_dir others
# Models that do not fit each other are known by their plan.
refused 6 "differ in the names, dtypes or shapes" --delta_against m0 --delta_dir d --dtype fp32
expect_absent none
expect_absent d

# What lies in directories below a model, an adapter and states, is none of the delta.
for case in "torch/fsdp2_lora_w2_fp32_qwen2 lora_adapter" "deepspeed/zero2_w2_tied optimizer"; do
    read -r fixture beside <<<"$case"
    given=("${merging[@]}" "$TESTS/data/$fixture/source")
    [[ ! -e "$TESTS/data/$fixture/hf" || -n "$(find "$TESTS/data/$fixture/source" -type d -name huggingface)" ]] || given+=(--hf_config "$TESTS/data/$fixture/hf")
    [[ $beside != optimizer ]] || given+=(--state all)
    expect_code 0 "${given[@]}" "$beside-1"
    expect_code 0 "${given[@]}" "$beside-2" --delta_against "$beside-1" --delta_dir "$beside-deltas"
    [[ -d "$beside-2/$beside" && "$(ls "$beside-deltas/weight_v000001")" == model.safetensors.index.json ]] || fail "beside $beside: $(ls "$beside-2" "$beside-deltas")"
done

# A delta that fails leaves the model, and names the command that goes on.
expect_code 6 mpirun -n 2 "${merging[@]}" c1 kept --delta_against m0 --delta_dir told
expect_text "m0 is not the model that told/weight_v000004 leads to"
expect_text "then: shardweld delta m0 kept told"
models same kept m1
[[ "$(ls -A told | wc -l)" == 4 ]] || fail "a refused delta left $(ls -A told)"

# A signal stops it in order; the same command goes on.
rm -rf late_deltas
"${merging[@]}" c1 late --delta_against m0 --delta_dir late_deltas --if_complete skip --bw_limit 50K >stopped.log 2>&1 &
pid=$!
for _ in $(seq 2000); do
    compgen -G 'late_deltas/.weight_v000001.shardweld-partial/part-*' >/dev/null && break
    sleep 0.005
done
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[[ "$code" == 11 && -z "$(ls -A late_deltas)" ]] || fail "stopped with $code: $(cat stopped.log; ls -A late_deltas)"
grep -qF "then: shardweld delta m0 late late_deltas" stopped.log || fail "the way on is not told: $(cat stopped.log)"
expect_code 0 "${merging[@]}" c1 late --delta_against m0 --delta_dir late_deltas --if_complete skip
version 1 late_deltas
finish
