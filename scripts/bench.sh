#!/usr/bin/env bash
# Times `shardweld merge` of synthetic Megatron and FSDP checkpoints against `cp -r` of the same checkpoint
# and against plain parallel copying (shardweld iobench), in interleaved runs on one file system.
# Needs the programs shardweld, make_checkpoint, report_figures, and mpirun.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/bench.sh [options]
  --gb N            size of the checkpoint in GB (4)
  --pairs N         runs of each kind per case (9)
  --dir DIR         where to work; keeps the checkpoints for the next time (TMPDIR/shardweld-bench)
  --bin DIR         where the programs are (build/bin)
  --format LIST     legacy,torch_dist,fsdp,fsdp_fp32 (the last: fp32 files, merged with --dtype bf16)
  --ranks LIST      1,2,4
  --strategy LIST   direct,collective (collective needs 2 ranks and is left out at 1)
  --fsync LIST      no,yes
  --tp N --pp N     ranks of the run that saved (4, 2)
  --quick           0.1 GB, 3 pairs, 1 and 3 ranks: does everything work?
  --clean           remove the checkpoints at the end

A case is timed with the page cache warm: all input is read once before. Each pair runs the merge,
`cp -r` and iobench one after the other, in another order each time; outputs are removed and the
file system synced between runs, outside the timing. With fsync the merge syncs
what it writes, `cp -r` is followed by `sync` of its files and directories, iobench syncs each file.
Every output of a first pair is compared with the values it must have.

Columns: medians of the wall times in seconds; the paired ratio merge / cp as median and quartiles;
seconds of the roof are those of iobench's copy; percent of the roof (GB/s of both, paired median); CPU seconds (user and system, all ranks);
peak memory of the largest rank (MiB); GB read and sent; rounds.
TEXT
}

gb=4 pairs=9 dir=${TMPDIR:-/tmp}/shardweld-bench formats=legacy,torch_dist,fsdp,fsdp_fp32 ranks=1,2,4
strategies=direct,collective fsyncs=no,yes tp=4 pp=2 clean=no
bin=$(cd "$(dirname "$0")/.." && pwd)/build/bin

while (($#)); do
    case $1 in
        --gb) gb=$2; shift ;;
        --pairs) pairs=$2; shift ;;
        --dir) dir=$2; shift ;;
        --bin) bin=$2; shift ;;
        --format) formats=$2; shift ;;
        --ranks) ranks=$2; shift ;;
        --strategy) strategies=$2; shift ;;
        --fsync) fsyncs=$2; shift ;;
        --tp) tp=$2; shift ;;
        --pp) pp=$2; shift ;;
        --quick) gb=0.1 pairs=3 ranks=1,3 ;;
        --clean) clean=yes ;;
        --help) usage; exit 0 ;;
        *) echo "bench.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

# More ranks than cores, and root in containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

fail() {
    echo "bench.sh: $*" >&2
    [[ -s $work/log ]] && tail -n 20 "$work/log" >&2
    exit 1
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/run.XXXXXX")
trap 'rm -rf "$work"' EXIT
for program in shardweld make_checkpoint report_figures; do
    [[ -x $bin/$program ]] || fail "$bin/$program is missing: build it first (--bin DIR)"
done

# The options that determine the model, for making and for checking.
size=(--gb "$gb" --tp "$tp" --pp "$pp")

set_format() { # FORMAT: sets how it is made, merged and checked
    layout=${1%_fp32} backend=megatron model=("${size[@]}") cast=() as=()
    [[ $layout != fsdp ]] || backend=fsdp
    if [[ $1 == *_fp32 ]]; then
        model+=(--dtype fp32) cast=(--dtype bf16) as=(--merged_dtype bf16)
    fi
}

make_checkpoint() { # FORMAT; sets `checkpoint`
    checkpoint=$dir/$1-${gb}gb-tp$tp-pp$pp
    if [[ ! -e $checkpoint/complete ]]; then
        rm -rf "$checkpoint"
        "$bin/make_checkpoint" "$checkpoint" --format "$layout" "${model[@]}" || fail "no checkpoint"
        touch "$checkpoint/complete"
    fi
    sync -f "$dir"
    find "$checkpoint/source" -type f -exec cat {} + >/dev/null
}

# Runs a command; sets `wall` and `cpu` to its seconds, the latter with all its children.
timed() {
    local TIMEFORMAT='%R %U %S' user system
    { time "$@" >"$work/log" 2>&1 || echo failed >"$work/failed"; } 2>"$work/time"
    [[ ! -e $work/failed ]] || fail "failed: $*"
    read -r wall user system <"$work/time"
    cpu=$(awk -v u="$user" -v s="$system" 'BEGIN { print u + s }')
}

merge() { # RANKS STRATEGY FSYNC [PREFIX...]
    local ranks=$1 strategy=$2 fsync=$3 options=()
    shift 3
    [[ $fsync == yes ]] || options=(--no_fsync)
    [[ ! -e $work/roof.json ]] || options+=(--roof "$work/roof.json")
    mpirun -n "$ranks" --bind-to none "$@" "$bin/shardweld" merge --backend "$backend" "${cast[@]}" \
        --local_dir "$checkpoint/source" --hf_config "$checkpoint/hf" \
        --target_dir "$work/merged" --strategy "$strategy" --report "$work/report.json" -q \
        "${options[@]}"
}

copy() { # FSYNC
    cp -r "$checkpoint/source" "$work/copied"
    [[ $1 == no ]] || find "$work/copied" -depth -exec sync {} +
}

roof() { # RANKS FSYNC
    local options=()
    [[ $2 == yes ]] || options=(--no_fsync)
    mpirun -n "$1" --bind-to none "$bin/shardweld" iobench "$work" --source "$checkpoint/source" --repeats 1 \
        --report "$work/roof.json" "${options[@]}"
}

tidy() {
    rm -rf "$work/merged" "$work/copied"
    sync -f "$dir"
}

# What the report must say, whatever the speed.
check_report() { # RANKS STRATEGY
    read -r did read_bytes sent_bytes rounds peak_bytes n gbs < <("$bin/report_figures" \
        "$work/report.json") || fail "no figures in the report"
    [[ $did == "$2" ]] || fail "asked for $2, the merge was $did"
    [[ $n == "$1" ]] || fail "asked for $1 ranks, the merge had $n"
    case $2 in
        direct) ((sent_bytes == 0)) || fail "direct sent $sent_bytes bytes" ;;
        collective) ((sent_bytes > 0)) || fail "collective sent nothing" ;;
    esac
    ((peak_bytes > 0 && read_bytes > 0)) || fail "the report counts no bytes"
}

check_values() {
    "$bin/make_checkpoint" --check "$work/merged" "${model[@]}" "${as[@]}" >"$work/log" 2>&1 ||
        fail "the merged model is wrong"
}

run_one() { # KIND RANKS STRATEGY FSYNC PAIR: adds a line to the file of its kind
    case $1 in
        merge)
            timed merge "$2" "$3" "$4"
            check_report "$2" "$3"
            [[ $5 != 0 ]] || check_values
            ;;
        copy) timed copy "$4" ;;
        roof)
            timed roof "$2" "$4"
            read -r wall cpu gbs < <("$bin/report_figures" "$work/roof.json")
            ;;
    esac
    echo "$wall $cpu $gbs" >>"$work/times.$1"
    tidy
}

# Median and quartiles of the numbers in a stream, interpolated.
quartiles() {
    sort -g | awk 'function at(q,  x, i) { x = q * (NR - 1) + 1; i = int(x)
                       return i < NR ? v[i] + (x - i) * (v[i + 1] - v[i]) : v[NR] }
                   { v[NR] = $1 }
                   END { printf "%.3f %.3f %.3f\n", at(0.5), at(0.25), at(0.75) }'
}

median() { # COLUMN KIND
    cut -d' ' -f"$1" "$work/times.$2" | quartiles | cut -d' ' -f1
}

ratios() { # KIND KIND: of wall times, pair by pair
    paste -d' ' "$work/times.$1" "$work/times.$2" | awk '{ print $1 / $4 }' | quartiles
}

# All orders, merge and copy first in turns: no kind always follows the same other one.
orders=("merge copy roof" "copy roof merge" "roof merge copy"
    "roof copy merge" "merge roof copy" "copy merge roof")

run_case() { # FORMAT RANKS STRATEGY FSYNC
    rm -f "$work"/times.*
    local kind pair ratio low high of_roof gbs=0
    timed roof "$2" "$4" # each merge reports its speed beside some roof: the first one beside this
    for ((pair = 0; pair < pairs; ++pair)); do
        for kind in ${orders[pair % 6]}; do
            run_one "$kind" "$2" "$3" "$4" "$pair"
        done
    done
    read -r ratio low high < <(ratios merge copy)
    of_roof=$(paste -d' ' "$work/times.merge" "$work/times.roof" | awk '{ print 100 * $3 / $6 }' | quartiles | cut -d' ' -f1)
    printf '%-10s %5d %-10s %-5s %8.2f %8.2f %8.2f %6.2f [%4.2f %4.2f] %5.0f %7.2f %7.2f %6.0f %6.2f %6.2f %6d\n' \
        "$1" "$2" "$3" "$4" "$(median 1 merge)" "$(median 1 copy)" "$(median 1 roof)" \
        "$ratio" "$low" "$high" "$of_roof" "$(median 2 merge)" "$(median 2 copy)" \
        "$(awk -v b="$peak_bytes" 'BEGIN { print b / 1048576 }')" \
        "$(awk -v b="$read_bytes" 'BEGIN { print b / 1e9 }')" \
        "$(awk -v b="$sent_bytes" 'BEGIN { print b / 1e9 }')" "$rounds"
}

# The kernel's word on memory: a merge under a limit on data (heap and private mappings).
check_limit() { # FORMAT
    local limit=$((512 << 20))
    timed merge 2 direct no prlimit --data=$limit
    check_report 2 direct
    check_values
    echo "$1: 2 ranks pass under RLIMIT_DATA = 512 MiB"
    tidy
}

echo "$(nproc) cores, $(awk '/MemTotal/ { printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)," \
    "$(df --output=fstype "$dir" | tail -n 1), load $(cut -d' ' -f1 /proc/loadavg), $gb GB, $pairs pairs"
"$bin/make_checkpoint" "$work/tiny" --gb 0.001 --tp "$tp" --pp "$pp" >"$work/log" || fail "no checkpoint"
checkpoint=$work/tiny
set_format legacy
for n in ${ranks//,/ }; do
    timed merge "$n" direct no
    echo "a merge of next to nothing with $n ranks takes $wall s"
    tidy
done
for format in ${formats//,/ }; do
    set_format "$format"
    make_checkpoint "$format"
    check_limit "$format"
    printf '%-10s %5s %-10s %-5s %8s %8s %8s %6s %-11s %5s %7s %7s %6s %6s %6s %6s\n' format ranks \
        strategy fsync merge_s cp_s roof_s ratio quartiles roof% cpu_s cp_cpu MiB readGB sentGB rounds
    for n in ${ranks//,/ }; do
        for strategy in ${strategies//,/ }; do
            [[ $strategy == direct || $n -gt 1 ]] || continue
            for fsync in ${fsyncs//,/ }; do
                run_case "$format" "$n" "$strategy" "$fsync"
            done
        done
    done
    [[ $clean == no ]] || rm -rf "$checkpoint"
done
