#!/usr/bin/env bash
# Every Megatron fixture, at several numbers of ranks and with both strategies: bit-equal to what the framework expects, and the
# same output files throughout. Usage: megatron_test.sh SHARDWELD TESTS [CASES-DIR [quick]]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
ranks="2 3 5 8"
[[ "${4:-}" != quick ]] || ranks="3"

for dir in "${3:-$TESTS/data/megatron}"/*/; do
    merge_in_many_ways "${dir%/}" "$ranks" && merge_in_small_messages "${dir%/}"
done
finish
