#!/usr/bin/env bash
# run.sh PROGRAM TESTS: all cases of $CASES, as the first process of namespaces of its own; scripts/test-hosts.sh starts it.
source "$(dirname "${BASH_SOURCE[0]}")/../cli/lib.sh"
source "$TESTS/hosts/hosts.sh"
source "$TESTS/hosts/measures.sh"

# This process only waits, so that a signal ends it at once, and the kernel all others with it.
{ hosts_up && run_cases "$HERE"; finish; } &
wait $!
