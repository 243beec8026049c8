#!/usr/bin/env bash
# Every Megatron fixture, at several numbers of ranks and with both strategies: bit-equal to what the framework expects, and the
# same output files throughout. Usage: megatron_test.sh SHARDWELD TESTS [CASES-DIR [RANKS]]
# With RANKS there are no small messages: for many cases that differ in names and shapes, and in nothing that ranks do.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"

for dir in "${3:-$TESTS/data/megatron}"/*/; do
    merge_in_many_ways "${dir%/}" "${4:-2 3 5 8}" && { [[ -n "${4:-}" ]] || merge_in_small_messages "${dir%/}"; }
done
finish
