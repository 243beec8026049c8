#!/usr/bin/env bash
# --delta_dir of watch: a version for each step, the very files that the command delta writes, whatever is killed or fails.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$WORK" || exit 1
SHARDWELD_PYTHON=python3 python_with delta numpy xxhash zstandard
DCP="$TESTS/data/torch/dcp_w2_bf16_qwen2"

models() {
    python3 "$TESTS/support/delta_models.py" "$@" || fail "models: $*"
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

# What $POINT says happens once, about the second step: the watch is killed before or behind a command, or the delta is killed, or it fails.
cat >"$WORK/program" <<'PROGRAM'
#!/bin/bash
is_time() {
    [[ "${POINT:-}" == "$1" && "$*" == *"/step-2 "* && ! -e "$WORK/struck" ]] && touch "$WORK/struck"
}
! is_time "before-$1" "$@" || { kill -KILL "$PPID" && sleep 5; }
! is_time "dies-$1" "$@" || kill -KILL $$
! is_time "fails-$1" "$@" || { echo "error: no space" && exit 8; }
"$REAL" "$@"
code=$?
! is_time "behind-$1" "$@" || { kill -KILL "$PPID" && sleep 5; }
exit "$code"
PROGRAM
chmod +x "$WORK/program"
export REAL="$SHARDWELD" WORK
mkdir "$WORK/python"
printf '#!/bin/sh\nSHARDWELD_PROGRAM="$WORK/program" exec "%s" "$@"\n' "$(command -v python3)" >"$WORK/python/python3"
chmod +x "$WORK/python/python3"
struck=(env PATH="$WORK/python:$PATH" "$SHARDWELD" watch)
plain=("$SHARDWELD" watch)

# A watch: a version for each step, which its diary names, and none twice.
launch=()
faulting=()
watching() { # CODE NAME OPTIONS...: of the run NAME, until all its steps are made
    local code="$1" name="$2"
    shift 2
    expect_code "$code" "${faulting[@]}" "${plain[@]}" "run-$name" "out-$name" --interval 0.05 --idle_exit 0 --polite no --no_fsync --delta_dir "deltas-$name" "${launch[@]}" "$@"
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
    launch=(--launch "mpirun -n $ranks")
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

# strikes POINT CODE NAME OPTIONS...: as `watching`, where that happens
strikes() {
    local plain=("${struck[@]}")
    rm -f "$WORK/struck"
    POINT="$1" watching "${@:2}"
    [[ -e "$WORK/struck" ]] || fail "$3: nothing happened"
}
# A delta that fails is made by the next watch; --then waits for it.
save later 1 2
for code in 16 0 0; do
    how=(watching)
    [[ $code == 0 ]] || how=(strikes fails-delta)
    "${how[@]}" "$code" later --delta_against m0 --then "/bin/sh -c 'echo \$SHARDWELD_STEP >>$WORK/told_then'"
    [[ $code == 0 ]] || expect_text "1 step without a delta: step-2"
    [[ "$(paste -sd' ' told_then)" == "step-1$([[ $code == 16 ]] || echo " step-2")" ]] || fail "--then: $(cat told_then)"
done
made_of later "1=1 2=2"
version 2 deltas-later

# Also where the trainer has deleted the step; --keep leaves the model that the next one leads from, and the one whose delta is owed.
save failing 1 2
strikes fails-delta 16 failing --delta_against m0 --keep 1
[[ "$(ls out-failing)" == $'step-1\nstep-2\nwatch.jsonl' ]] || fail "--keep: $(ls out-failing)"
save failing 3
rm -rf run-failing/step-2
watching 0 failing --delta_against m0 --keep 1
[[ "$(ls out-failing)" == $'step-3\nwatch.jsonl' ]] || fail "--keep: $(ls out-failing)"
made_of failing "1=1 2=2 3=3"
for step in 1 2 3; do version "$step" deltas-failing; done
expect_code 0 "$SHARDWELD" delta m0 m1 told_bridged && expect_code 0 "$SHARDWELD" delta m1 m3 told_bridged

# A delta that is killed ends the watch; a watch is killed behind the merge of the second step, before its delta, behind it. The next one makes what is
# missing, and nothing twice.
for point in dies-delta behind-merge before-delta behind-delta; do
    name="killed-$point"
    save "$name" 1 2 3
    strikes "$point" 137 "$name" --delta_against m0
    [[ ! -e "deltas-$name/weight_v000003" ]] || fail "$name: not ended behind the second step"
    watching 0 "$name" --delta_against m0
    made_of "$name" "1=1 2=2 3=3"
    for step in 1 2 3; do version "$step" "deltas-$name"; done
done

# A step that the trainer deletes while it is read is bridged, too.
save lost 1 2 3
faults_at "$WORK/run-lost" "$WORK/none" || { finish; exit; }
faulting=(env SHARDWELD_FAULT_SCRIPT="rm -rf $WORK/run-lost/step-2" "${faulty[@]}" "call=read,side=input,path=step-2/__,nth=3,do=script")
watching 0 lost --delta_against m0 --on_lost skip
faulting=()
made_of lost "1=1 3=2"
same_files told_bridged deltas-lost "a step that was lost"
finish
