# Shared by the command-line tests: source it with the program and the tests' directory as arguments.
set -uo pipefail
SHARDWELD="$1"
TESTS="$2"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
# What ends with an error ends at once: mpirun need not give its ranks another second. Tests of ranks that are stopped take this back.
export OMPI_MCA_odls_base_sigkill_timeout=0
WORK="$(mktemp -d)"
# Launchers of tests that run at once share no directory: Open MPI 4 loses one of two that make it in the same moment.
export OMPI_MCA_orte_tmpdir_base="/dev/shm/${WORK##*/}"
# Commands in Python are compiled once, and the sources' directory stays as it is.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX="$WORK.pycache"
OWN=("$WORK" "$WORK.pycache" "$OMPI_MCA_orte_tmpdir_base")
trap 'rm -rf "${OWN[@]}"' EXIT
failures=0

# py ARGUMENTS <<CODE: Python, which knows the modules of tests/support and tests/cli.
py() {
    PYTHONPATH="$TESTS/support:$TESTS/cli" python3 - "$@"
}

fail() {
    echo "FAILED: $*"
    failures=$((failures + 1))
}

# expect_unread CODE COMMAND...: exit code of a command whose output is not read.
expect_unread() {
    local code="$1" found
    shift
    { (sleep 0.5 && exec timeout 180 "$@"); echo $? >"$WORK/code"; } 2>&1 | true
    found="$(<"$WORK/code")"
    [[ "$found" == "$code" ]] || fail "exit code $found without a reader, expected $code: $*"
}

# drop_report ARGUMENTS: removes the report of an earlier merge where the command gives its place: it is another model's, mostly.
drop_report() {
    local last=''
    for word in "$@"; do
        if [[ "$last" == --report && " $* " =~ " merge "|" test " && -f "$word" && ! -L "$word" ]] && grep -qs '"tool": {' "$word"; then
            rm -f "$word"
        fi
        last="$word"
    done
}

# expect_code CODE COMMAND...: runs with a time limit; output in $WORK/out and $WORK/err.
expect_code() {
    local expected="$1" code=0
    shift
    drop_report "$@"
    timeout 180 "$@" >"$WORK/out" 2>"$WORK/err" || code=$?
    if [[ "$code" != "$expected" ]]; then
        fail "exit code $code, expected $expected: $*"
        sed 's/^/    /' "$WORK/err" | head -5
        return 1
    fi
}

# files DIR: a CRC of all files but the report, which has times. (SHA-256 of what the tests write takes minutes.)
files() {
    (cd "$1" && find . -type f ! -name 'shardweld_report.json' -print0 | sort -z | xargs -0 cksum)
}

# same_files DIR OTHER NAME: both have the same files
same_files() {
    [[ "$(files "$1")" == "$(files "$2")" ]] || fail "$3: $(diff <(files "$1") <(files "$2") | head -4)"
}

# expect_text TEXT: standard error of the last command holds TEXT.
expect_text() {
    grep -qF -- "$1" "$WORK/err" || { fail "no '$1' in: $(head -c 600 "$WORK/err")"; return 1; }
}

# expect_out TEXT: standard output of the last command holds TEXT.
expect_out() {
    grep -qF -- "$1" "$WORK/out" || fail "no '$1' in standard output: $(head -c 1500 "$WORK/out")"
}

expect_absent() {
    [[ ! -e "$1" ]] || fail "$1 exists"
}

# merge_case CASE-DIR OUT RANKS [options]: merges a fixture; RANKS 0 means without mpirun.
merge_case() {
    local dir="$1" out="$2" ranks="$3"
    shift 3
    local launcher=()
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    local config=()
    [[ -n "$(find "$dir/source" -type d -name huggingface -print -quit)" ]] || config=(--hf_config "$dir/hf")
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --local_dir "$dir/source" --target_dir "$out" "${config[@]}" -q --no_fsync "$@"
}

# with_tokenizer DIR...: puts a tokenizer's file beside each config.json below: most fixtures have none, and --strict counts that.
with_tokenizer() {
    find "$@" -name config.json -execdir touch tokenizer.model \;
}

# same_tensors MODEL EXPECTED [NAME]: bit by bit.
same_tensors() {
    python3 "$TESTS/support/compare_safetensors.py" "$1" "$2" >/dev/null 2>"$WORK/compare" || fail "${3:-$1}: $(cat "$WORK/compare")"
}

# same_as_expected CASE-DIR OUT
same_as_expected() {
    same_tensors "$2" "$1/expected" "$(basename "$1")"
}

# faults_at INPUT PLACE: from now on "${faulty[@]}" FAULTS COMMAND... is that command with faults (tests/faults/inject/fault.hpp) on files below
# the two. Fails where the library was not built.
faults_at() {
    local library="$(dirname "$SHARDWELD")/../lib/faults.so"
    mkdir -p "$WORK/counts"
    faulty=(env SHARDWELD_FAULT_COUNTS="$WORK/counts" SHARDWELD_FAULT_INPUT="$1" SHARDWELD_FAULT_OUTPUT="$2" SHARDWELD_FAULT_REPORT="$WORK/none"
        bash -c 'SHARDWELD_FAULTS="$1" LD_PRELOAD="$0" exec "${@:2}"' "$library")
    [[ -e "$library" ]] || { echo "SKIPPED in part: built without the fault library"; return 1; }
}

# sum_of DIR: one number for all of `files`.
sum_of() {
    files "$1" | cksum
}

# python_with NAME MODULE...: sets $python, $SHARDWELD_PYTHON or python3, which has the modules. Without them the test ends here, skipped
# loudly; a failure where SHARDWELD_REQUIRE lists the name.
python_with() {
    local name="$1" modules="${*:2}"
    python="${SHARDWELD_PYTHON:-python3}"
    if ! "$python" -c "import ${modules// /, }" 2>/dev/null; then
        echo "SKIPPED: $python has not all of $modules"
        [[ ",${SHARDWELD_REQUIRE:-}," != *,"$name",* ]] || fail "$name is required"
        finish
        exit 77
    fi
}

finish() {
    ((failures == 0)) || { echo "$failures checks failed"; exit 1; }
}
