#!/usr/bin/env bash
# Fuzzes the readers of files and texts (tests/fuzz) under AddressSanitizer and UndefinedBehaviorSanitizer.
#
#   scripts/fuzz.sh [--seconds N] [--runs N] [--fast | --replay] [--record FILE] [TARGETS]
#
# Without --replay: libFuzzer, built in build-fuzz/; what it learns stays in build-fuzz/corpus/TARGET, a finding ends the run and lies in
# build-fuzz/findings/. With --replay: in build-replay/, the corpus and mutations of it, for the targets that need no MPI; quick to build, so that every
# run of the tests can afford it. Default: 10 seconds each, all targets. All with clang, which compiles this in half of g++'s time.
# --fast, for long counts: without AddressSanitizer, in build-fuzz-fast/; what such a run learns is then run once with it.
# --record adds the executions of each target to a JSON file; with --runs, only what that file lacks is run, so that a long count
# can be made in pieces: scripts/fuzz.sh --fast --runs 10000000 --seconds 200 --record docs/measurements/fuzzing.json, again and again.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

seconds="" runs="" fast="" replay="" record="" targets=()
while (($# > 0)); do
    case "$1" in
        --seconds) seconds="$2"; shift 2 ;;
        --runs) runs="$2"; shift 2 ;;
        --fast) fast=1; shift ;;
        --replay) replay=1; shift ;;
        --record) record="$2"; shift 2 ;;
        -*) echo "unknown option $1" >&2; exit 2 ;;
        *) targets+=("$1"); shift ;;
    esac
done
[[ -n "$seconds$runs" ]] || seconds=10
corpus="$ROOT/tests/fuzz/corpus"
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(basename -s .cpp "$ROOT"/tests/fuzz/fuzz_*.cpp | sed 's/^fuzz_//')
fi

# build DIR "PROGRAMS" [cmake options]
build() {
    local dir="$ROOT/$1" programs="$2"
    shift 2
    cmake --preset release -S "$ROOT" -B "$dir" -DSHARDWELD_TESTS=ON -DSHARDWELD_TORCH=OFF -DSHARDWELD_HDF5=OFF "$@" >/dev/null
    ninja -C "$dir" --quiet $programs
}

install_packages clang
clang=(-DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang)
if [[ -n "$replay" ]]; then
    needs_mpi=(settings options journal)
    for target in "${needs_mpi[@]}"; do
        targets=("${targets[@]/#$target/}")
    done
    mapfile -t targets < <(printf '%s\n' "${targets[@]}" | sed '/^$/d')
    # Not optimised, and of UBSan what AddressSanitizer does not see: in half the time to compile. Warnings are the other builds' matter.
    checks=address,bool,bounds,enum,float-cast-overflow,integer-divide-by-zero,pointer-overflow,shift,signed-integer-overflow
    build build-replay replay_readers "${clang[@]}" -DSHARDWELD_SANITIZE="$checks" -DCMAKE_BUILD_TYPE=Fuzz -DCMAKE_CXX_FLAGS="-O0 -w"
    replay() {
        local said status=0
        said="$("$ROOT/build-replay/bin/replay_readers" "$1" "$corpus/$1" "${seconds:-10}s" 2>&1)" || status=$?
        echo "$1: $said"
        return "$status"
    }
    export -f replay
    export ROOT corpus seconds
    printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'replay {}'
    exit
fi

# Kept small, freed memory stays in the processor's cache; where memory was allocated, a finding's own run tells (without these).
export ASAN_OPTIONS="quarantine_size_mb=8:thread_local_quarantine_size_kb=64:malloc_context_size=0"
# A recipe is read line by line: longer ones only take longer.
declare -A longest=([recipe]=2048 [options]=1024)
# Seeds that lie elsewhere: the recipes of all families.
declare -A also=([recipe]="$ROOT/src/models/recipes")
clang+=(-DSHARDWELD_FUZZ=ON)
build build-fuzz "${targets[*]/#/fuzz_}" "${clang[@]}" -DSHARDWELD_SANITIZE=address,undefined,fuzzer-no-link
programs=build-fuzz
if [[ -n "$fast" ]]; then
    # What the library itself can check, it checks instead.
    programs=build-fuzz-fast
    build "$programs" "${targets[*]/#/fuzz_}" "${clang[@]}" -DSHARDWELD_SANITIZE=undefined,fuzzer-no-link -DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS
fi
mkdir -p "$ROOT/build-fuzz/findings"

# run PROGRAMS OPTIONS: the target, over what it has learnt; an input that breaks something ends all.
run() {
    "$ROOT/$1/bin/fuzz_$target" "${@:2}" "$learnt" "$corpus/$target" ${also[$target]:+"${also[$target]}"} >"$log" 2>&1 && return
    tail -40 "$log"
    echo "$target: a finding" >&2
    exit 1
}

for target in "${targets[@]}"; do
    left="$runs"
    if [[ -n "$runs" && -n "$record" ]]; then
        left=$((runs - $(python3 "$ROOT/tests/support/record_fuzzing.py" "$record" "$target")))
        ((left > 0)) || continue
    fi
    learnt="$ROOT/build-fuzz/corpus/$target"
    dictionary="$ROOT/tests/fuzz/dictionaries/$target.txt"
    mkdir -p "$learnt"
    limits=(${left:+-runs="$left"} ${seconds:+-max_total_time="$seconds"})
    options=(-max_len="${longest[$target]:-4096}" -timeout=10 -malloc_limit_mb=64 -rss_limit_mb=1024
        -print_final_stats=1 -entropic=0 -reload=0 -artifact_prefix="$ROOT/build-fuzz/findings/${target}_")
    [[ ! -f "$dictionary" ]] || options+=(-dict="$dictionary")
    log="$ROOT/build-fuzz/$target.log"
    run "$programs" "${limits[@]}" "${options[@]}"
    executions="$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")"
    echo "$target: $executions executions, $(sed -n 's/^stat::average_exec_per_sec: *//p' "$log") a second, $(find "$learnt" -type f | wc -l) files learnt"
    if [[ -n "$record" ]]; then
        python3 "$ROOT/tests/support/record_fuzzing.py" "$record" "$target" "$log" ${fast:+--fast}
    fi
    [[ -z "$fast" ]] || run build-fuzz -runs=0 "${options[@]}"
done
