#!/usr/bin/env bash
# Every Megatron fixture, at several numbers of ranks and with both strategies: bit-equal to what the framework expects, and the
# same output files throughout. Usage: megatron_test.sh SHARDWELD TESTS [CASES-DIR [quick]]
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cases="${3:-$TESTS/data/megatron}"

# report_field NAME: a number of the report's execute phase.
report_field() {
    python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
phase = next(phase for phase in report["phases"] if phase["name"] == "execute")
print({**phase, **report["plan"]}[sys.argv[2]])' "$WORK/report.json" "$1"
}

for dir in "$cases"/*/; do
    dir="${dir%/}"
    name="$(basename "$dir")"
    merge_case "$dir" "$WORK/$name" 0 || continue
    same_as_expected "$dir" "$WORK/$name"
    sum="$(sum_of "$WORK/$name")"
    ranks_list="2 3 5 8"
    [[ "${4:-}" != quick ]] || ranks_list="3"
    for ranks in $ranks_list; do
        for strategy in direct collective; do
            rm -rf "$WORK/again"
            merge_case "$dir" "$WORK/again" "$ranks" --strategy "$strategy" --report "$WORK/report.json" || continue
            checks=$((checks + 3))
            [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "$name: other bytes with $ranks ranks, $strategy"
            [[ "$(report_field strategy)" == "$strategy" ]] || fail "$name: strategy $(report_field strategy)"
            sent="$(report_field bytes_sent)"
            [[ "$strategy" == direct && "$sent" == 0 || "$strategy" == collective && "$sent" -gt 0 ]] || fail "$name: $sent bytes sent, $strategy"
        done
    done
    rm -rf "$WORK/again"
    merge_case "$dir" "$WORK/again" 3 --strategy collective --message_limit 64 --report "$WORK/report.json" || continue
    checks=$((checks + 2))
    [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "$name: other bytes with messages of 64 bytes"
    (($(report_field rounds) > 50)) || fail "$name: $(report_field rounds) rounds with messages of 64 bytes"
    rm -rf "$WORK/again" "$WORK/$name"
done
finish
