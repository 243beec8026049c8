#!/usr/bin/env bash
# Builds into build-asan/ or build-tsan/ and runs the tests under AddressSanitizer (with leaks) and UndefinedBehaviorSanitizer, or under
# ThreadSanitizer: unit tests, mpi tests, fuzz corpora and the program itself under mpirun. A report of a sanitizer is a failure, also where
# the test does not notice it. Not part of the gate: the first build takes as long as the program's own, and the tests several times theirs.
# usage: scripts/test-sanitizers.sh [asan|tsan] [-- options of ctest]   default: asan, then tsan
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
kinds=()
while (($# > 0)) && [[ "$1" != -- ]]; do
    [[ "$1" == asan || "$1" == tsan ]] || { echo "usage: scripts/test-sanitizers.sh [asan|tsan] [-- options of ctest]" >&2; exit 2; }
    kinds+=("$1")
    shift
done
shift $(($# > 0 ? 1 : 0))
((${#kinds[@]} > 0)) || kinds=(asan tsan)

# Left out: limits of memory, which no sanitizer can hold (it reserves terabytes and keeps what was freed).
left_out=(hostile hostile_slow memory_limit)
for name in "${left_out[@]}"; do
    [[ -e "$ROOT/tests/cli/${name}_test.sh" || -e "$ROOT/tests/cases/$name.txt" ]] || { echo "no such test: $name" >&2; exit 2; }
done
# What runs threads.
threaded='^unit_(app|execute|io|process)$' # ... and every merge
support="$ROOT/tests/support"
status=0

# tests KIND NAME REGULAR-EXPRESSION [options of ctest]. No randomised addresses: TSan of GCC 12 does not know the ranges of newer kernels.
tests() {
    setarch -R ctest --no-tests=error --test-dir "$ROOT/build-$1" --output-on-failure --output-junit "$ROOT/build-$1/results-$2.xml" -R "$3" \
        -E "^cli_($(IFS='|' && echo "${left_out[*]}"))(_test)?\$" "${@:4}" || status=1
}

install_packages libgtest-dev hdf5-tools
for kind in "${kinds[@]}"; do
    build="$ROOT/build-$kind"
    reports="$build/reports"
    sanitizers=$([[ "$kind" == asan ]] && echo address,undefined || echo thread)
    cmake --preset release -S "$ROOT" -B "$build" -DSHARDWELD_SANITIZE="$sanitizers" -DSHARDWELD_TESTS=ON -DSHARDWELD_TORCH=OFF -DSHARDWELD_HDF5=ON >/dev/null
    ninja -C "$build"
    c++ -shared -fPIC -o "$build/keep_libraries.so" "$support/keep_libraries.cpp"
    rm -rf "$reports" "$build"/results-*.xml && mkdir "$reports"

    common=halt_on_error=1:abort_on_error=1:exitcode=99
    export UBSAN_OPTIONS="$common:print_stacktrace=1:log_path=$reports/ubsan"
    # A rank that ends the job must end itself before others notice; ThreadSanitizer would wait for a second.
    export TSAN_OPTIONS="$common:ignore_noninstrumented_modules=1:second_deadlock_stack=1:atexit_sleep_ms=100:log_path=$reports/tsan"
    export ASAN_OPTIONS="$common:log_path=$reports/asan"
    if [[ "$kind" == asan ]]; then
        tests asan unit '^(unit_|fuzz_replay_)' "$@"
        ASAN_OPTIONS+=:detect_leaks=0 tests asan mpi '^mpi_' "$@"
        # Open MPI is not instrumented. Its threads have gone when leaks are looked for, and their storage must not be looked at.
        LSAN_OPTIONS="suppressions=$support/leaks.supp:print_suppressions=0:use_tls=0" ASAN_OPTIONS+=:verify_asan_link_order=0 \
            LD_PRELOAD="$build/keep_libraries.so" tests asan cli '^cli_' "$@"
    else
        tests tsan unit "$threaded" "$@"
        tests tsan mpi '^mpi_' "$@"
        tests tsan cli '^cli_' "$@"
    fi
    for report in "$reports"/*; do
        [[ -e "$report" ]] || continue
        status=1
        echo "$report:"
        head -60 "$report"
    done
done
exit "$status"
