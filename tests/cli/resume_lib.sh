# Shared by the tests of stopped and resumed merges and of damaged bytes; source it after lib.sh.
unset OMPI_MCA_odls_base_sigkill_timeout  # ranks that are stopped need their second
MAKE="$(dirname "$SHARDWELD")/make_checkpoint"
SLOW=(--no_fsync --bw_limit 150MB) # some seconds for what make_big makes
JOURNAL=".merged.shardweld-partial/journal"

# flip FILE OFFSET: another bit there.
flip() {
    python3 -c 'import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(int(sys.argv[2]))
    byte = file.read(1)[0]
    file.seek(int(sys.argv[2]))
    file.write(bytes([byte ^ 4]))' "$1" "$2"
}

# reported PART KEY: of the last report.
reported() {
    python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]][sys.argv[3]])' "$WORK/report.json" "$1" "$2"
}

# merge_of CHECKPOINT RANKS [options]: the command; RANKS 0 means without mpirun. The target is $WORK/merged.
merge_of() {
    local name="$1" ranks="$2"
    shift 2
    command=("$SHARDWELD" merge --local_dir "$WORK/$name/source" --hf_config "$WORK/$name/hf" --target_dir "$WORK/merged" "$@")
    ((ranks == 0)) || command=(mpirun -n "$ranks" "${command[@]}")
}

# blocks: how many are written down; a record's second eight bytes end in zeros, or in a one for a sum of what was read.
blocks() {
    cat "$WORK/$JOURNAL"/*-* 2>/dev/null | od -An -v -tx1 -w40 | grep -c '^.\{36\} 00 00 00 00'
}

# begin RECORDS: starts $command and waits until so many blocks are written down; sets $job, $launcher and $ranks (process ids).
begin() {
    timeout 180 "${command[@]}" >"$WORK/out" 2>"$WORK/err" &
    job=$!
    while (($(blocks) < $1)) && kill -0 "$job" 2>/dev/null; do sleep 0.02; done
    launcher="$(pgrep -P "$job" | head -1)"
    ranks="$(pgrep -P "${launcher:-0}")"
    [[ -n "$ranks" ]] || ranks="$launcher"
}

# ended CODE: what $job returns.
ended() {
    local code=0
    wait "$job" 2>/dev/null || code=$?
    [[ "$code" == "$1" ]] || fail "exit code $code, expected $1: ${command[*]}: $(head -c 600 "$WORK/err")"
}

# signalled SIGNAL WHO CODE RECORDS: starts $command, sends SIGNAL to WHO (ranks, one or launcher) as soon as so many blocks are
# written down, and expects CODE.
signalled() {
    local signal="$1" who="$2" targets
    begin "$4"
    case "$who" in
        ranks) targets="$ranks" ;;
        one) targets="$(tail -1 <<<"$ranks")" ;;
        launcher) targets="$launcher" ;;
    esac
    kill -"$signal" $targets 2>/dev/null || fail "the merge ended before $signal could be sent"
    ended "$3"
    expect_absent "$WORK/merged"
}

# resumed [least percent]: runs $command with --resume; the output is the reference's and enough was reused.
resumed() {
    local percent="${1:-1}"
    command+=(--resume --report "$WORK/report.json")
    rm -f "$WORK/report.json"
    expect_code 0 "${command[@]}" || return
    diff -r -x shardweld_report.json "$WORK/reference" "$WORK/merged" >"$WORK/diff" || fail "another output: $(head -3 "$WORK/diff")"
    python3 - "$WORK/report.json" "$WORK/reference.json" "$percent" <<'PYTHON' || fail "see above"
import json, sys
report, reference = (json.load(open(path)) for path in sys.argv[1:3])
resume, total = report["resume"], sum(tensor["bytes"] for tensor in report["tensors"])
written = sum(rank["bytes_written"] for rank in report["ranks"])
assert resume["blocks_reused"] > 0 and resume["bytes_reused"] >= total * int(sys.argv[3]) / 100, (resume, total)
assert written == total - resume["bytes_reused"], (written, resume, total)
assert report["root"] == reference["root"] and report["tensors"] == reference["tensors"], "checksums"
PYTHON
    [[ -z "$(find "$WORK" -maxdepth 1 -name '.merged*')" ]] || fail "left behind: $(ls -A "$WORK")"
    rm -rf "$WORK/merged"
}

# stopped [merge options]: a partial directory with part of the work.
stopped() {
    rm -rf "$WORK/merged" "$WORK"/.merged*
    merge_of big 2 "${SLOW[@]}" "$@"
    signalled USR1 ranks 11 50
}

# make_big [GB]
make_big() {
    "$MAKE" --gb "${1:-0.2}" --tp 4 "$WORK/big" >/dev/null || fail "make_checkpoint"
    merge_of big 2 --no_fsync -q --report "$WORK/reference.json"
    expect_code 0 "${command[@]}"
    mv "$WORK/merged" "$WORK/reference"
}
