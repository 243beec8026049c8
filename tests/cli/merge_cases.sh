# Shared by the tests that merge real checkpoints in several ways: source it after lib.sh.

# report_field NAME: a number of the report's execute phase.
report_field() {
    python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
phase = next(phase for phase in report["phases"] if phase["name"] == "execute")
print({**phase, **report["plan"]}[sys.argv[2]])' "$WORK/report.json" "$1"
}

# merge_again CASE-DIR SUM RANKS STRATEGY [options]: the same output files as SUM tells, and the strategy really taken.
merge_again() {
    local dir="$1" sum="$2" ranks="$3" strategy="$4"
    shift 4
    local name sent
    name="$(basename "$dir"), $ranks ranks, $strategy"
    rm -rf "$WORK/again"
    merge_case "$dir" "$WORK/again" "$ranks" --strategy "$strategy" --report "$WORK/report.json" "$@" || return 1
    checks=$((checks + 3))
    [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "$name: other bytes"
    [[ "$(report_field strategy)" == "$strategy" ]] || fail "$name: strategy $(report_field strategy)"
    sent="$(report_field bytes_sent)"
    [[ "$strategy" == direct && "$sent" == 0 || "$strategy" == collective && "$sent" -gt 0 ]] || fail "$name: $sent bytes sent"
    rm -rf "$WORK/again"
}

# merge_in_many_ways CASE-DIR "RANKS ..." [options]: without mpirun as expected, then with each number of ranks and both strategies the
# same files; the first one stays in $WORK/merged.
merge_in_many_ways() {
    local dir="$1" ranks_list="$2" sum ranks strategy
    shift 2
    rm -rf "$WORK/merged"
    merge_case "$dir" "$WORK/merged" 0 "$@" || return 1
    same_as_expected "$dir" "$WORK/merged"
    sum="$(sum_of "$WORK/merged")"
    for ranks in $ranks_list; do
        for strategy in direct collective; do
            merge_again "$dir" "$sum" "$ranks" "$strategy" "$@"
        done
    done
}

# merge_in_small_messages CASE-DIR [options]: the files of $WORK/merged, sent in steps of 64 bytes.
merge_in_small_messages() {
    merge_again "$1" "$(sum_of "$WORK/merged")" 3 collective --message_limit 64 "${@:2}" || return 1
    checks=$((checks + 1))
    (($(report_field rounds) > 50)) || fail "$(basename "$1"): $(report_field rounds) rounds with messages of 64 bytes"
}
