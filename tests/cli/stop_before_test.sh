#!/usr/bin/env bash
# The end of a job's time, ranks that hang, two merges into one target, and who watches a target.
# Usage: stop_before_test.sh SHARDWELD TESTS-DIR (make_checkpoint lies beside the program)
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/resume_lib.sh"
make_big
partial="$WORK/.merged.shardweld-partial"

expect_nothing_left() {
    [[ -z "$(find "$WORK" -maxdepth 1 -name '*merged*')" ]] || fail "left behind: $(ls -A "$WORK")"
}

# The job's end is near before anything is written: nothing is.
for ranks in 0 3; do
    merge_of big "$ranks" --no_fsync --stop_before 1h
    SLURM_JOB_END_TIME=$(($(date +%s) + 60)) expect_code 11 "${command[@]}"
    expect_text "stopped before the job ends (--stop_before): nothing was written yet"
    expect_nothing_left
done
# It comes while tensors move; by Slurm's variable, or by what squeue says.
slower=(--no_fsync --bw_limit 30MB) # longer than the three or four seconds that are left
merge_of big 2 "${slower[@]}" --stop_before 56s
SLURM_JOB_END_TIME=$(($(date +%s) + 60)) expect_code 11 "${command[@]}"
expect_text "stopped before the job ends"
merge_of big 2 --no_fsync
resumed 3
mkdir "$WORK/bin"
printf '#!/bin/sh\n[ "$*" = "-h -j 77 -o %%e" ] && date -d "+60 seconds" +%%Y-%%m-%%dT%%H:%%M:%%S\n' >"$WORK/bin/squeue"
chmod +x "$WORK/bin/squeue"
merge_of big 0 "${slower[@]}" --stop_before 56s
SLURM_JOB_ID=77 PATH="$WORK/bin:$PATH" expect_code 11 "${command[@]}"
merge_of big 0 --no_fsync
resumed 3
merge_of big 2 "${slower[@]}" --stop_at +4s
expect_code 11 "${command[@]}"
expect_text "stopped at the time that was given (--stop_at)"
merge_of big 0 --no_fsync
resumed 3
merge_of big 0 --no_fsync --stop_before 58s
expect_code 0 "${command[@]}"
expect_text "--stop_before has no effect: the end of this job is unknown"
rm -rf "$WORK/merged"

# Who waits for --bw_limit does not hang, and sees when it is time to stop.
merge_of big 2 --no_fsync --bw_limit 20KB --stall_timeout 2s --stop_at +6s
began=$SECONDS
expect_code 11 "${command[@]}"
expect_text "stopped at the time that was given (--stop_at)"
((SECONDS - began < 30)) || fail "it stopped after $((SECONDS - began)) s"
rm -rf "$WORK/merged" "$partial"

# Ranks that do not reach one another end before any of them has a communicator; the message is in the rank's log, too.
merge_of big 3 --stall_timeout 2s --log_dir "$WORK/logs"
expect_code 10 env LD_PRELOAD="$(dirname "$SHARDWELD")/../lib/hang_at_start.so" "${command[@]}"
expect_text "($(hostname)): no progress for 2 s (--stall_timeout) while starting, waiting for MPI_Comm_dup: the ranks cannot reach one another"
grep -q "waiting for MPI_Comm_dup" "$WORK"/logs/rank-*.log || fail "no rank's log has it"
rm -rf "$WORK/logs" "$WORK/merged"

# A rank that stands still ends all, under either strategy; so does one that is stuck in a file.
for strategy in direct collective; do
    merge_of big 3 "${SLOW[@]}" --strategy "$strategy" --stall_timeout 2s
    begin 20
    frozen="$(head -1 <<<"$ranks")"
    number="$(tr '\0' '\n' <"/proc/$frozen/environ" | sed -n 's/^OMPI_COMM_WORLD_RANK=//p')"
    kill -STOP "$frozen"
    ended 10
    expect_text "no answer (UDP) from rank $number ($(hostname)), last heard of at "
    expect_text "): no progress for 2 s (--stall_timeout) while moving tensors, waiting for "
    (($(grep -c 'no progress' "$WORK/err") == 1)) || fail "more than one message: $(cat "$WORK/err")"
    for ((waits = 0; waits < 50; waits++)); do # a killed process gives back its memory first
        [[ ! "$(ps -o stat= -p "$frozen")" =~ ^(Z.*)?$ ]] || break
        sleep 0.1
    done
    ((waits < 50)) || fail "the rank that stood still is still there"
    expect_absent "$WORK/merged"
    merge_of big 3 --no_fsync
    resumed 5
done

# Two merges into one target: the second names the first; one that is dead is no hindrance.
merge_of big 2 "${SLOW[@]}"
SLURM_JOB_ID=4242 begin 10
merge_of big 0 --no_fsync --resume
expect_code 15 "${command[@]}"
expect_text "another run is writing $WORK/merged: process $(head -1 <<<"$ranks") of job 4242 on host $(hostname) holds $WORK/.merged.shardweld-lock"
kill -KILL $ranks
ended 137
expect_code 0 "${command[@]}"
expect_text "reused "
expect_absent "$partial"

# Who watches a target while it is replaced sees the old model or the new one. It has many files, so that it is replaced slowly.
rm -rf "$WORK/merged"
mkdir "$WORK/merged"
(cd "$WORK/merged" && touch $(seq -f 'old-%g.safetensors' 3000))
cat >"$WORK/watch.py" <<'PYTHON'
import os, sys
target, new, looks, seen = sys.argv[1], set(os.listdir(sys.argv[2])) | {"shardweld_report.json"}, 0, set()
old = {f"old-{i}.safetensors" for i in range(1, 3001)}
while "new" not in seen or looks < 1000:
    before = os.stat(target).st_ino
    names = set(os.listdir(target))
    if os.stat(target).st_ino != before:
        continue
    looks += 1
    assert names in (old, new), (len(names), sorted(names)[:3])
    seen.add("old" if names == old else "new")
assert seen == {"old", "new"}, seen
PYTHON
timeout 180 python3 "$WORK/watch.py" "$WORK/merged" "$WORK/reference" 2>"$WORK/watch" &
watcher=$!
merge_of big 2 --no_fsync --overwrite
expect_code 0 "${command[@]}"
wait "$watcher" || fail "a part of a model was seen: $(tail -1 "$WORK/watch")"
expect_absent "$partial"
finish
