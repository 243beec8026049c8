# Shared by the tests that merge real checkpoints in several ways: source it after lib.sh.

# report_fields NAME...: numbers of the report's execute phase and plan, in one line.
report_fields() {
    python3 -c 'import json, sys
report = json.load(open(sys.argv[1]))
phase = next(phase for phase in report["phases"] if phase["name"] == "execute")
print(*({**phase, **report["plan"]}[name] for name in sys.argv[2:]))' "$WORK/report.json" "$@"
}

# merge_again CASE-DIR SUM RANKS STRATEGY [options]: the same output files as SUM tells, and the strategy really taken. Leaves the number of
# rounds in $rounds.
merge_again() {
    local dir="$1" sum="$2" ranks="$3" strategy="$4"
    shift 4
    local name taken sent
    name="$(basename "$dir"), $ranks ranks, $strategy"
    rm -rf "$WORK/again"
    merge_case "$dir" "$WORK/again" "$ranks" --strategy "$strategy" --report "$WORK/report.json" "$@" || return 1
    [[ "$(sum_of "$WORK/again")" == "$sum" ]] || fail "$name: other bytes"
    read -r taken sent rounds < <(report_fields strategy bytes_sent rounds)
    [[ "$taken" == "$strategy" ]] || fail "$name: strategy $taken"
    [[ "$strategy" == direct && "$sent" == 0 || "$strategy" == collective && "$sent" -gt 0 ]] || fail "$name: $sent bytes sent"
    rm -rf "$WORK/again"
}

# ways_of RANKS...: sets ${ways[@]}, "RANKS STRATEGY" each. With SHARDWELD_ALL_WAYS=1 each number of ranks with both strategies; else one of
# these in turn, so that the cases of a test together take all ways: starting ranks is most of what a small merge costs.
case_number=0
ways_of() {
    local ranks
    ways=()
    for ranks in "$@"; do
        ways+=("$ranks collective" "$ranks direct")
    done
    [[ -n "${SHARDWELD_ALL_WAYS:-}" ]] || ways=("${ways[case_number % ${#ways[@]}]}")
    case_number=$((case_number + 1))
}

# merge_in_many_ways CASE-DIR "RANKS ..." [options]: without mpirun as expected, then in ways_of RANKS the same files; the first one stays
# in $WORK/merged.
merge_in_many_ways() {
    local dir="$1" way sum
    ways_of $2
    shift 2
    rm -rf "$WORK/merged"
    merge_case "$dir" "$WORK/merged" 0 "$@" || return 1
    same_as_expected "$dir" "$WORK/merged"
    sum="$(sum_of "$WORK/merged")"
    for way in "${ways[@]}"; do
        merge_again "$dir" "$sum" $way "$@"
    done
}

# merge_in_small_messages CASE-DIR [options]: the files of $WORK/merged, sent in steps of 64 bytes. Without SHARDWELD_ALL_WAYS every third case.
merge_in_small_messages() {
    [[ -n "${SHARDWELD_ALL_WAYS:-}" ]] || ((case_number % 3 == 0)) || return 0
    merge_again "$1" "$(sum_of "$WORK/merged")" 3 collective --message_limit 64 "${@:2}" || return 1
    ((rounds > 20)) || fail "$(basename "$1"): $rounds rounds with messages of 64 bytes"
}
