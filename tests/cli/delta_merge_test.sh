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

# A watch: a version for each step, which its diary names, and none twice.
launch=()
watching() { # CODE NAME OPTIONS...: of the run NAME, until all its steps are made
    local code="$1" name="$2"
    shift 2
    expect_code "$code" "${launch[@]}" "$SHARDWELD" watch "run-$name" "out-$name" --interval 0.05 --idle_exit 0 --no_fsync --delta_dir "deltas-$name" "$@"
}
save() { # NAME STEP...
    mkdir -p "run-$1"
    for step in "${@:2}"; do
        cp -r "c$step" "run-$1/step-$step"
    done
}
# made_of NAME "STEP=VERSION ...": what the diary says of deltas, in its order.
made_of() {
    local found
    found="$(sed -n 's/.*"event":"delta","step":"step-\([0-9]*\)".*"version":"0*\([0-9]\)".*/\1=\2/p' "out-$1/watch.jsonl" | paste -sd' ')"
    [[ "$found" == "$2" ]] || fail "$1: deltas of $found, not $2"
    [[ "$(ls -A "deltas-$1" | wc -l)" == "$(wc -w <<<"$(tr ' ' '\n' <<<"$2" | grep -v =0)")" ]] || fail "$1: versions $(ls -A "deltas-$1")"
}
for ranks in 1 3; do
    launch=(mpirun -n "$ranks")
    save "r$ranks" 1 2 3
    watching 0 "r$ranks" --delta_against m0
    watching 0 "r$ranks" --delta_against m0
    made_of "r$ranks" "1=1 2=2 3=3"
    for step in 1 2 3; do version "$step" "deltas-r$ranks"; done
done
launch=()

# Without a model to begin with the first step has none, which is said once; later steps go on, also behind one that is gone.
save first 1 2
watching 0 first && expect_text "step-1 has no delta: the deltas begin with it"
rm -rf run-first/step-1
save first 3
watching 0 first -v && ! grep -q "has no delta" "$WORK/err" || fail "said twice"
made_of first "1=0 2=1 3=2"
expect_code 0 "$SHARDWELD" delta m1 m2 told_first && expect_code 0 "$SHARDWELD" delta m2 m3 told_first
same_files told_first deltas-first "from the first step on"

# A step that is saved again: the delta leads from the last one. That one itself cannot be replaced.
rm -rf run-first/step-2 && cp -r c4 run-first/step-2
watching 0 first
expect_code 0 "$SHARDWELD" delta m3 m4 told_first
made_of first "1=0 2=1 3=2 2=3"
same_files told_first deltas-first "a step that was saved again"
rm -rf run-first/step-2 && cp -r c1 run-first/step-2
watching 16 first && expect_text "is not the model that" && expect_text "1 step without a delta: step-2"
made_of first "1=0 2=1 3=2 2=3"

# Nor does it go on from a model that somebody removed; what a chain has begun with is not needed any more.
cp -r m0 begun && save removed 1
watching 0 removed --delta_against begun
rm -rf begun && save removed 2
watching 0 removed --delta_against begun
rm -rf out-removed/step-2 run-removed/step-2 && save removed 3
watching 16 removed && expect_text "begin anew: give another --delta_dir"
made_of removed "1=1 2=2"

# Refused at once.
mkdir run-refused
watching 3 refused --delta_against absent
watching 2 refused --quantize gguf:q8_0
expect_code 2 "$SHARDWELD" watch run-refused out-refused --delta_against m0 && expect_text "add --delta_dir DIR"
watching 2 refused --to fsdp:world=2

faults_at "$WORK/none" "$WORK" || { finish; exit; }
full=("${faulty[@]}" "call=mkdir,path=weight_v000002,do=error:28")
# A delta that fails is made by the next watch; --then waits for it.
save later 1 2
for code in 16 0 0; do
    launch=()
    [[ $code == 0 ]] || launch=("${full[@]}")
    watching "$code" later --delta_against m0 --then "/bin/sh -c 'echo \$SHARDWELD_STEP >>$WORK/told_then'"
    [[ $code == 0 ]] || expect_text "1 step without a delta: step-2"
    [[ "$(paste -sd' ' told_then)" == "step-1$([[ $code == 16 ]] || echo " step-2")" ]] || fail "--then: $(cat told_then)"
done
made_of later "1=1 2=2"
version 2 deltas-later

# Or it is bridged; --keep leaves the model that the next one leads from.
save failing 1 2
launch=("${full[@]}")
watching 16 failing --delta_against m0 --keep 1
[[ "$(ls out-failing)" == $'step-1\nstep-2\nwatch.jsonl' ]] || fail "--keep: $(ls out-failing)"
launch=()
save failing 3
rm -rf run-failing/step-2
watching 0 failing --delta_against m0 --keep 1
[[ "$(ls out-failing)" == $'step-3\nwatch.jsonl' ]] || fail "--keep: $(ls out-failing)"
made_of failing "1=1 3=2"
expect_code 0 "$SHARDWELD" delta m0 m1 told_bridged && expect_code 0 "$SHARDWELD" delta m1 m3 told_bridged
same_files told_bridged deltas-failing "a delta that bridges a step"

# A step that the trainer deletes while it is read is bridged, too.
save lost 1 2 3
faults_at "$WORK/run-lost" "$WORK/none"
launch=(env SHARDWELD_FAULT_SCRIPT="rm -rf $WORK/run-lost/step-2" "${faulty[@]}" "call=read,side=input,path=step-2/__,nth=3,do=script")
watching 0 lost --delta_against m0 --on_lost skip
made_of lost "1=1 3=2"
same_files told_bridged deltas-lost "a step that was lost"

# Killed at every point between two steps: the next watch makes what is missing, and nothing twice.
faults_at "$WORK/none" "$WORK"
for ranks in 1 3; do
    number=0
    points=(call=rename,path=weight_v000002 call=write,path=watch.jsonl,nth=6)
    ((ranks > 1)) || points+=(call=any,path=weight_v000002 call=write,path=weight_v000002.shardweld-partial/part call=write,path=watch.jsonl,nth=7)
    for point in "${points[@]}"; do
        name="killed-$ranks-$((++number))"
        save "$name" 1 2 3
        launch=("${faulty[@]}" "$point,rank=0,do=signal:9")
        ((ranks == 1)) || launch=(mpirun -n "$ranks" "${launch[@]}")
        watching 137 "$name" --delta_against m0
        [[ ! -e "deltas-$name/weight_v000003" ]] || fail "$name: not killed behind the second step"
        launch=()
        ((ranks == 1)) || launch=(mpirun -n "$ranks")
        watching 0 "$name" --delta_against m0
        made_of "$name" "1=1 2=2 3=3"
        for step in 1 2 3; do version "$step" "deltas-$name"; done
    done
done
finish
