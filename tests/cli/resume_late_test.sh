#!/usr/bin/env bash
# Merges that do not sync and have much to write begin their journal after a while. Those that are stopped before that, or killed after it,
# are continued.
# Usage: resume_late_test.sh SHARDWELD TESTS-DIR (make_checkpoint lies beside the program)
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/resume_lib.sh"
make_big 0.6
partial="$WORK/.merged.shardweld-partial"
slow=(--no_fsync --bw_limit 200MB)

# has_written PID: more than 10 MB.
has_written() {
    (($(awk '/^wchar/ { print $2 }' "/proc/${1:-0}/io" 2>/dev/null || echo 0) > 10000000))
}

# Stopped before that: it begins then.
for strategy in direct collective; do
    merge_of big 2 "${slow[@]}" --strategy "$strategy"
    begin 0
    ranks=""
    until has_written "${ranks% *}" || ! kill -0 "$job" 2>/dev/null; do
        sleep 0.02
        ranks="$(pgrep -P "$(pgrep -P "$job" | head -1)" | tr '\n' ' ')"
        ranks="${ranks% }"
    done
    kill -USR1 $ranks
    ended 11
    expect_text "are kept in $partial"
    merge_of big 3 --no_fsync
    resumed
done

# Killed later: what was written down by then, by any rank, is there.
merge_of big 2 "${slow[@]}"
signalled KILL one 137 150
[[ "$(ls "$partial/journal")" == "1-0
1-1
header.json" ]] || fail "in the journal: $(ls "$partial/journal")"
merge_of big 0 --no_fsync
resumed 20
finish
