#!/usr/bin/env bash
# Builds into build-asan/ or build-tsan/ and runs the unit tests, the mpi tests at 1 and 3 ranks and the replays of the fuzz corpora under
# AddressSanitizer and UndefinedBehaviorSanitizer, or under ThreadSanitizer. Not part of the gate: the first build takes as long as the program's own.
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

# Open MPI is not instrumented: what it allocates at its start and never frees, and its own synchronisation, are its business.
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=ignore_noninstrumented_modules=1:second_deadlock_stack=1

# tests KIND REGULAR-EXPRESSION [options of ctest]. No randomised addresses: TSan of GCC 12 does not know the ranges of newer kernels.
tests() {
    setarch -R ctest --test-dir "$ROOT/build-$1" --output-on-failure -R "$2" "${@:3}"
}

install_packages libgtest-dev libtorch-dev hdf5-tools
for kind in "${kinds[@]}"; do
    build="$ROOT/build-$kind"
    sanitizers=$([[ "$kind" == asan ]] && echo address,undefined || echo thread)
    cmake -S "$ROOT" -B "$build" -G Ninja -DSHARDWELD_SANITIZE="$sanitizers" >/dev/null
    mapfile -t programs < <(ninja -C "$build" -t targets all | sed -n 's/^\(unit_[a-z0-9]*\|mpi_tests\|replay_[a-z_]*\): phony$/\1/p')
    ninja -C "$build" "${programs[@]}"
    tests "$kind" '^(unit_|fuzz_replay_)' "$@"
    ASAN_OPTIONS=detect_leaks=0 tests "$kind" '^mpi_[13]$' "$@"
done
