#!/usr/bin/env bash
# run.sh PROGRAM TESTS: all cases of $CASES, as the first process of namespaces of its own; scripts/test-hosts.sh starts it.
source "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
source "$TESTS/hosts/hosts.sh"
source "$TESTS/hosts/measures.sh"

run_cases() {
    local cases case started n_done=0
    hosts_up || { finish; exit 1; }
    read -ra cases <<<"$CASES"
    for case in "${cases[@]}"; do
        started=$SECONDS
        source "$TESTS/hosts/$case.sh"
        echo "$case: $((SECONDS - started)) s, $failures failures so far"
        n_done=$((n_done + 1))
    done
    # An error of the shell ends the loop and nothing else.
    ((n_done == ${#cases[@]})) || fail "only $n_done of ${#cases[@]} cases came to their end"
    finish
}

# This process only waits, so that a signal ends it at once, and the kernel all others with it.
run_cases &
wait $!
