#!/usr/bin/env bash
# Every Megatron fixture, at several numbers of ranks and with both strategies: bit-equal to what the framework expects, and the
# same output files throughout. Usage: megatron_test.sh SHARDWELD TESTS [CASES-DIR]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"

for dir in "${3:-$TESTS/data/megatron}"/*/; do
    merge_in_many_ways "${dir%/}" "2 3 5 8" && merge_in_small_messages "${dir%/}"
done
finish
