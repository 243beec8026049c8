#!/usr/bin/env bash
# run.sh PROGRAM TESTS: all cases of $CASES, as the first process of namespaces of its own; scripts/test-slurm.sh starts it.
source "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
source "$TESTS/hosts/hosts.sh"
source "$TESTS/hosts/measures.sh"
source "$TESTS/slurm/cluster.sh"
source "$TESTS/slurm/jobs.sh"

# A watch lives through three time limits of a minute each, and computes next to nothing: its case runs beside the others, in a shell of its own.
run_all() {
    local others="${CASES//watch/}" beside=
    if [[ "$others" != "$CASES" ]]; then
        (WORK="$(mktemp -d -p "$WORK")" CASES=watch failures=0; run_cases "$TESTS/slurm"; exit "$failures") &
        beside=$!
    fi
    CASES="$others" run_cases "$TESTS/slurm"
    [[ -z "$beside" ]] || wait "$beside" || fail "$? checks of the watch"
}

# This process only waits, so that a signal ends it at once, and the kernel all others with it.
{ hosts_up && slurm_up && run_all; finish; } &
wait $!
