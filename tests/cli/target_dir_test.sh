#!/usr/bin/env bash
# One target, several runs: who holds it, what others put there meanwhile, and publishing that is cut short.
# Usage: target_dir_test.sh SHARDWELD TESTS-DIR (the fault library lies in ../lib, seen from the program)
source "$(dirname "$0")/lib.sh"
source="$TESTS/data/torch/fsdp1_w2_fp32_llama/source"
place="$WORK/place"
target="$place/model"
merging=("$SHARDWELD" merge -q --no_fsync --local_dir "$source")
slowly=(--bw_limit 60KB) # about four seconds
expect_code 0 "${merging[@]}" --target_dir "$WORK/reference"
expect_code 0 "${merging[@]}" --target_dir "$WORK/parts" --max_shard_size 40KB

# anew: an empty target, alone in its directory.
anew() {
    rm -rf "$place"
    mkdir -p "$target"
}

# begin LOCK COMMAND...: starts it ($first) and waits until it holds the lock.
begin() {
    local lock="$1"
    shift
    "$@" >"$WORK/first.out" 2>"$WORK/first.err" &
    first=$!
    while [[ ! -s "$lock" ]] && kill -0 "$first" 2>/dev/null; do sleep 0.01; done
}

# ended CODE: what $first returns; its messages are what expect_text looks at.
ended() {
    local code=0
    wait "$first" || code=$?
    cp "$WORK/first.err" "$WORK/err"
    [[ "$code" == "$1" ]] || fail "the first run ends with $code, expected $1: $(head -c 600 "$WORK/err")"
}

# whole [REFERENCE] [MORE]: the target is that model and MORE, and nothing lies beside it.
whole() {
    diff -r -x shardweld_report.json "$WORK/${1:-reference}" "$target" >"$WORK/diff" || fail "another output: $(head -3 "$WORK/diff")"
    [[ "$(ls -A "$place")" == model ]] || fail "left behind: $(ls -A "$place")"
}

# What is read does not go with an older target: shards that links lead to, recipes.
anew
cp -r "$source" "$WORK/linked"
mv "$WORK/linked"/*rank_0.pt "$target/"
ln -s "$target"/*rank_0.pt "$WORK/linked/"
expect_code 12 "${merging[@]/"$source"/"$WORK/linked"}" --target_dir "$target" --overwrite
expect_text "contains the input $(echo "$target"/*rank_0.pt)"
"$SHARDWELD" recipes llama >"$target/own.recipe"
expect_code 12 "${merging[@]}" --recipe "$target/own.recipe" --target_dir "$target" --overwrite
expect_text "contains the input $target/own.recipe"

# A target below the checkpoint, as verl's users have it: made there, replaced, gone on with, and never taken for a part of the checkpoint. The
# config's directory beside the shards is none.
verl="$WORK/actor"
below="$verl/hf-model"
cp -r "$source" "$verl"
into_checkpoint() { # CODE [options]
    expect_code "$1" "$SHARDWELD" merge --no_fsync --local_dir "$verl" --target_dir "${@:2}"
    ! grep -q "are not read" "$WORK/err" || fail "the model below the checkpoint: $(cat "$WORK/err")"
}
for way in "" --overwrite; do
    into_checkpoint 0 "$below" $way
    diff -r -x shardweld_report.json "$WORK/reference" "$below" >"$WORK/diff" || fail "another output below the checkpoint: $(head -3 "$WORK/diff")"
done
into_checkpoint 12 "$below"
expect_text "exists and is not empty"
into_checkpoint 12 "$verl/huggingface" --overwrite
expect_text "contains the input $verl/huggingface"
into_checkpoint 12 "$verl" --overwrite
expect_text "is read as input"
into_checkpoint 0 "$WORK/beside"
diff -r -x shardweld_report.json "$WORK/reference" "$WORK/beside" >"$WORK/diff" || fail "with a model below the checkpoint: $(head -3 "$WORK/diff")"
rm -r "$below"
begin "$verl/.hf-model.shardweld-lock" "${merging[@]/"$source"/"$verl"}" "${slowly[@]}" --target_dir "$below"
sleep 2.5
kill -9 "$first"
wait "$first" 2>/dev/null
[[ -d "$verl/.hf-model.shardweld-partial" ]] || fail "nothing was left below the checkpoint"
rm -rf "$WORK/beside"
into_checkpoint 0 "$WORK/beside"
into_checkpoint 0 "$below"
diff -r -x shardweld_report.json "$WORK/reference" "$below" >"$WORK/diff" || fail "resumed below the checkpoint: $(head -3 "$WORK/diff")"

# The second run finds the first's lock, whether the target can be replaced for it or not.
for case in "$place $target $target ." "$target . $place $target"; do
    read -r first_at first_target second_at second_target <<<"$case"
    anew
    begin "$place/.model.shardweld-lock" env --chdir "$first_at" "${merging[@]}" "${slowly[@]}" --target_dir "$first_target"
    expect_code 15 env --chdir "$second_at" "${merging[@]}" --target_dir "$second_target"
    expect_text "another run is writing $target: process $first "
    expect_text "holds $place/.model.shardweld-lock"
    expect_code 15 env --chdir "$second_at" "${merging[@]}" --target_dir "$second_target" --overwrite
    ended 0
    whole
done

# What others put into the target meanwhile stays, and the work is kept.
for first_target in "$target" .; do
    anew
    begin "$place/.model.shardweld-lock" env --chdir "$([[ "$first_target" == . ]] && echo "$target" || echo "$place")" "${merging[@]}" "${slowly[@]}" --target_dir "$first_target"
    echo mine >"$target/mine"
    ended 12
    expect_text "the target directory $target was empty when this merge began and is not now"
    expect_text "the same command continues from there"
    [[ "$(ls "$target")" == mine && "$(cat "$target/mine")" == mine ]] || fail "the target has $(ls -A "$target")"
    # From the other side too.
    rm "$target/mine"
    expect_code 0 env --chdir "$place" "${merging[@]}" --target_dir "$target" --resume --report "$WORK/report.json"
    whole
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["resume"]["bytes_reused"] == 0)' "$WORK/report.json" || fail "nothing was reused"
done

# What is published and read is what was looked at: a tokenizer that becomes a link to another file, a shard that is replaced by one of the same
# size and time.
swapped="$WORK/swapped"
for change in 'ln -sf /etc/passwd huggingface/tokenizer.json' 'cp -p *rank_0.pt new && mv new *rank_0.pt'; do
    rm -rf "$swapped"
    cp -r "$source" "$swapped"
    echo '{}' >"$swapped/huggingface/tokenizer.json"
    anew
    begin "$place/.model.shardweld-lock" "${merging[@]/"$source"/"$swapped"}" "${slowly[@]}" --target_dir "$target"
    (cd "$swapped" && eval "$change")
    ended 7
    expect_text " was changed "
    [[ -z "$(find "$target" -type f)" ]] || fail "published: $(ls -A "$target")"
done

# Only models are replaced.
anew
cp "$WORK/reference/"* "$target"
mkdir "$target/sub"
echo mine >"$target/notes.txt"
expect_code 12 "${merging[@]}" --target_dir "$target" --overwrite
expect_text "the target directory $target holds what does not belong to a model: notes.txt, sub/"
[[ "$(cat "$target/notes.txt")" == mine ]] || fail "somebody's notes were removed"
rm -r "$target/notes.txt" "$target/sub"
echo "# A model" >"$target/README.md"
expect_code 0 "${merging[@]}" --target_dir "$target" --overwrite
whole

# Who may not write beside the target locks it inside; who may sees that, and is seen.
user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if ((EUID == 0)) && "${user[@]}" test -r "$source/model_world_size_2_rank_0.pt" -a -x "$SHARDWELD"; then
    chmod 755 "$WORK"
    for lock in "$target/.shardweld-lock" "$place/.model.shardweld-lock"; do
        anew
        chown 65534 "$target"
        # As root and as the other user.
        if [[ "$lock" == "$target/"* ]]; then
            first_user=("${user[@]}") second_user=(env)
        else
            first_user=(env) second_user=("${user[@]}")
        fi
        begin "$lock" "${first_user[@]}" "${merging[@]}" "${slowly[@]}" --target_dir "$target"
        expect_code 15 "${second_user[@]}" "${merging[@]}" --target_dir "$target"
        expect_text "another run is writing $target: process $first "
        expect_text "holds $lock"
        ended 0
        whole
    done
else
    echo "SKIPPED in part: cannot run as another user that may read the program and the checkpoint"
fi

if ! faults_at "$source" "$place"; then
    finish
    exit
fi

# A file system without locks: of two runs at the same place in the code one goes on. It stands still where it has made the file and written
# nothing into it, and where it takes a dead run's file away.
no_locks="call=lock,times=0,do=error:38" # ENOSYS
dead="$(bash -c 'echo $$')"
for case in "write " "write dead" "unlink dead"; do
    read -r call holder <<<"$case"
    rm -rf "$place" "$WORK/counts"
    mkdir -p "$place" "$WORK/counts"
    [[ -z "$holder" ]] || echo "$(uname -n) $dead" >"$place/.model.shardweld-lock"
    "${faulty[@]}" "$no_locks;call=$call,path=.model.shardweld-lock,do=slow:3000" "${merging[@]}" --target_dir "$target" 2>"$WORK/first.err" &
    first=$!
    until grep -qs "$call" "$WORK/counts/struck.0" || ! kill -0 "$first" 2>/dev/null; do sleep 0.01; done
    expect_code 15 "${faulty[@]}" "$no_locks" "${merging[@]}" --target_dir "$target"
    expect_text "another run is writing $target"
    expect_text "this file system has no locks"
    ended 0
    whole
done
# A living one's file is a lock, a dead one's is not; nor is it for who only looks at it.
anew
echo "$(uname -n) $$" >"$place/.model.shardweld-lock"
expect_code 15 "${faulty[@]}" "$no_locks" "${merging[@]}" --target_dir "$target"
expect_text "another run is writing $target: process $$ "
rm "$place/.model.shardweld-lock"
echo "$(uname -n) $$" >"$target/.shardweld-lock"
expect_code 15 "${faulty[@]}" "$no_locks" "${merging[@]}" --target_dir "$target"
expect_text "process $$ "
echo "$(uname -n) $dead" >"$target/.shardweld-lock"
expect_code 0 "${faulty[@]}" "$no_locks" "${merging[@]}" --target_dir "$target"
whole

# Killed when the new model has its name, and while the old one, which has the partial directory's, is removed: it is not taken for work.
# Killed just before: the work is there.
for case in "unlink 1" "rename 2"; do
    read -r call nth <<<"$case"
    anew
    echo old >"$target/model.safetensors"
    expect_code 137 "${faulty[@]}" "call=$call,side=output,phase=publish,nth=$nth,do=signal:9" "${merging[@]}" --target_dir "$target" --overwrite
    is_new="$(cmp -s "$target/model.safetensors" "$WORK/reference/model.safetensors" && echo new)"
    expect_code 0 "${merging[@]/-q/-v}" --target_dir "$target" --overwrite --resume
    ! grep -q damaged "$WORK/err" || fail "$case: $(cat "$WORK/err")"
    if [[ "$call" == unlink ]]; then
        [[ "$is_new" == new ]] || fail "the merge was killed too early"
        expect_text "$target is complete: an earlier run was killed"
    else
        [[ "$is_new" != new ]] || fail "the merge was killed too late"
        expect_text "reused"
    fi
    whole
done

# reused: the last merge took all tensors over.
reused() {
    python3 - "$WORK/report.json" <<'PYTHON' || fail "not all was reused"
import json, sys
report = json.load(open(sys.argv[1]))
assert report["resume"]["bytes_reused"] == sum(tensor["bytes"] for tensor in report["tensors"]), report["resume"]
PYTHON
}

# Where two names cannot be exchanged, killed between the two renames: the old model is not lost, and the new one is resumed.
no_exchange="call=rename,side=output,phase=publish,nth=2,do=error:22" # EINVAL
killed_between() { # CALL NTH
    anew
    echo old >"$target/model.safetensors"
    expect_code 137 "${faulty[@]}" "$no_exchange;call=$1,side=output,phase=publish,nth=$2,do=signal:9" "${merging[@]}" --target_dir "$target" --overwrite
    [[ "$(cat "$place/.model.shardweld-old/model.safetensors")" == old ]] || fail "killed at another place: $(ls -A "$place")"
}
killed_between rename 4
expect_absent "$target"
for resume in "" --resume; do
    expect_code 12 "${merging[@]}" --target_dir "$target" $resume
    expect_text "what it held is $place/.model.shardweld-old"
done
expect_code 0 "${merging[@]/-q/-v}" --target_dir "$target" --overwrite --resume --report "$WORK/report.json"
expect_text "gave $place/.model.shardweld-old the name $target back"
reused
whole
# One that fails leaves the old model where it was.
killed_between rename 4
expect_code 7 "${faulty[@]}" "call=write,side=output,path=model.safetensors,do=error:5" "${merging[@]}" --target_dir "$target" --overwrite
[[ "$(cat "$target/model.safetensors")" == old ]] || fail "the old model is not there: $(ls -A "$place")"
# Killed when the new one has its name.
killed_between unlink 1
expect_code 12 "${merging[@]}" --target_dir "$target"
expect_code 0 "${merging[@]/-q/-v}" --target_dir "$target" --overwrite
expect_text "$target is complete: an earlier run was killed"
whole
# Nobody knows whose that is: it stays, and is named.
anew
mkdir "$place/.model.shardweld-old"
expect_code 0 "${merging[@]/-q/-v}" --target_dir "$target"
expect_text "$place/.model.shardweld-old is what an earlier run replaced"
rmdir "$place/.model.shardweld-old"
whole

# killed_at RENAME OPTIONS...: a merge in the target that is killed in front of that rename.
killed_at() {
    local nth="$1"
    shift
    expect_code 137 env --chdir "$target" "${faulty[@]}" "call=rename,side=output,phase=publish,nth=$nth,do=signal:9" "${merging[@]}" --target_dir . "$@"
}

n_files="$(find "$WORK/parts" -type f | wc -l)"
for nth in 1 2 3 "$n_files"; do
    anew
    killed_at "$nth" --max_shard_size 40KB
    [[ "$(find "$target" -maxdepth 1 -type f | wc -l)" == "$((nth - 1))" && ! -e "$target/model.safetensors.index.json" ]] || fail "before rename $nth: $(ls -A "$target")"
    if ((nth > 1)); then
        expect_code 12 env --chdir "$target" "${merging[@]}" --target_dir . --max_shard_size 40KB --restart
        expect_text "exists and is not empty"
    fi
    # What is not the run's own stays a reason to refuse.
    echo mine >"$target/mine"
    expect_code 12 env --chdir "$target" "${merging[@]}" --target_dir . --max_shard_size 40KB --resume
    rm "$target/mine"
    from="$target"
    ((nth != 2)) || from="$place" # from elsewhere
    expect_code 0 env --chdir "$from" "${merging[@]}" --target_dir "$target" --max_shard_size 40KB --resume --report "$WORK/report.json"
    whole parts
    reused
done
# A file that was changed meanwhile is not the run's own.
anew
killed_at 3 --max_shard_size 40KB
echo "{}" >"$target/config.json"
expect_code 12 env --chdir "$target" "${merging[@]}" --target_dir . --max_shard_size 40KB --resume
expect_text "exists and is not empty"
[[ "$(cat "$target/config.json")" == "{}" ]] || fail "a changed file was taken back"

# In the place of an older model: never a file of one with a file of the other, and the note stays.
for model in reference parts; do
    options=()
    [[ "$model" == reference ]] || options=(--max_shard_size 40KB)
    for ((nth = 1; nth < 50; ++nth)); do
        anew
        for file in config.json model.safetensors model.safetensors.index.json; do echo old >"$target/$file"; done
        echo mine >"$target/mine"
        code=0
        env --chdir "$target" "${faulty[@]}" "call=rename,side=output,phase=publish,nth=$nth,do=signal:9" "${merging[@]}" --target_dir . --overwrite \
            "${options[@]}" 2>"$WORK/err" || code=$?
        ((code != 0)) || break
        old="$(grep -lx old "$target"/*)" new="$(grep -Lx 'old\|mine' "$target"/*)"
        [[ "$code" == 137 ]] || fail "rename $nth: code $code: $(cat "$WORK/err")"
        [[ -z "$old" || -z "$new" ]] || fail "before rename $nth: old: $old, new: $new"
        mark=model.safetensors
        [[ "$model" == reference ]] || mark=model.safetensors.index.json
        [[ -z "$new" || ! -e "$target/$mark" ]] || fail "before rename $nth: $mark is there, and not all else"
        expect_code 0 env --chdir "$target" "${merging[@]}" --target_dir . --overwrite "${options[@]}" --resume --report "$WORK/report.json"
        reused
        expect_code 0 rm "$target/mine"
        whole "$model"
    done
    ((nth > 5 && nth < 50)) || fail "only $nth renames"
done
finish
