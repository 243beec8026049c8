#!/usr/bin/env bash
# Measures the way of the metadata at true scale: `shardweld inspect` and `plan` on sparse checkpoints of models
# with experts, in growing sizes. Their headers are real, their tensors are holes, so 2 TB of weights take under
# 2 GB of disk. Needs the programs shardweld, make_checkpoint, GNU time, and mpirun for more than one rank.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/bench_scale.sh [options]
  --format LIST     legacy,torch_dist,fsdp,zero3
  --stages LIST     pipeline stages of the 1T model (61 layers in 16 stages, fewer layers with fewer): 2,4,8,16;
                    256 files each, in fsdp 16; not for zero3
  --no_671b         leaves out the 671B model in 2,048 (legacy, fsdp, zero3: 1,024, 256 and 1,024) files
  --ranks N         ranks that read (1)
  --latency MS      what each call that reads a shard file waits, as on a file system far away (0); needs lib/faults.so beside DIR
  --dir DIR         where to work (TMPDIR/shardweld-scale)
  --bin DIR         where the programs are (build/bin)
  --json FILE       appends a JSON line for each run

Saved by TP 8, EP 64, expert TP 4 (671B: 1). The page cache is warm: a run before is not counted. Columns: pieces
(chunks and rank-local tensors, replicas included), files, wall and CPU seconds (all ranks), peak resident memory of
all ranks together (MiB), and CPU microseconds and bytes of memory for each piece.
TEXT
}

formats=legacy,torch_dist,fsdp,zero3 stages=2,4,8,16 ranks=1 latency=0 json=/dev/null with_671b=yes
dir=${TMPDIR:-/tmp}/shardweld-scale
bin=$(cd "$(dirname "$0")/.." && pwd)/build/bin
while (($#)); do
    case $1 in
        --format) formats=$2; shift ;;
        --stages) stages=$2; shift ;;
        --no_671b) with_671b=no ;;
        --ranks) ranks=$2; shift ;;
        --latency) latency=$2; shift ;;
        --dir) dir=$2; shift ;;
        --bin) bin=$2; shift ;;
        --json) json=$2; shift ;;
        --help) usage; exit 0 ;;
        *) echo "bench_scale.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1

fail() {
    echo "bench_scale.sh: $*" >&2
    exit 1
}

for program in "$bin/shardweld" "$bin/make_checkpoint" /usr/bin/time; do
    [[ -x $program ]] || fail "$program is missing"
done
mkdir -p "$dir"
work=$(mktemp -d "$dir/run.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Every rank under GNU time, which adds a line to $work/ranks.
cat >"$work/timed" <<TEXT
#!/bin/sh
$([[ $latency == 0 ]] || cat <<FAULTS
export SHARDWELD_FAULT_COUNTS="$work/counts" SHARDWELD_FAULT_INPUT="$work/model/source"
export SHARDWELD_FAULTS="call=read,side=input,times=0,do=slow:$latency" LD_PRELOAD="$(realpath "$bin/../lib/faults.so")"
FAULTS
)
exec /usr/bin/time -a -o "$work/ranks" -f 'of_rank %U %S %M' "\$@"
TEXT
chmod +x "$work/timed"
mkdir "$work/counts"

run() { # COMMAND [options]: sets `wall`, `cpu`, `mib`
    local launch=() TIMEFORMAT=%R
    ((ranks == 1)) || launch=(mpirun -n "$ranks" --bind-to none)
    rm -f "$work/ranks"
    { time "${launch[@]}" "$work/timed" "$bin/shardweld" "$@" --local_dir "$work/model/source" \
        --hf_config "$work/model/hf" >"$work/$1.out" 2>"$work/log"; } 2>"$work/wall" ||
        { cat "$work/log" >&2; fail "$1 failed"; }
    wall=$(tail -n 1 "$work/wall")
    read -r cpu mib < <(awk '/^of_rank/ { cpu += $2 + $3; kib += $4 }
        END { printf "%.2f %.0f\n", cpu, kib / 1024 }' "$work/ranks")
}

pieces() { # from the table of tensors that inspect prints
    awk '/^tensor / { on = 1; next } on && NF == 0 { exit } on { sub(/.*\] +/, ""); n += $1 + $2 } END { print n }' \
        "$work/inspect.out"
}

measure() { # MODEL FORMAT MAKE_OPTIONS...
    local name=$1 format=$2 n_pieces n_files command
    shift 2
    "$bin/make_checkpoint" "$work/model" --format "$format" --sparse "$@" >"$work/log" || fail "no checkpoint"
    n_files=$(find "$work/model/source" -name '*.pt' -o -name '*.distcp' | grep -vc common.pt)
    run inspect --all
    n_pieces=$(pieces)
    for command in inspect plan; do
        run "$command"
        awk -v m="$name" -v f="$format" -v c="$command" -v p="$n_pieces" -v n="$n_files" -v w="$wall" -v u="$cpu" \
            -v k="$mib" 'BEGIN { printf "%-6s %-10s %-8s %8d %6d %7.2f %7.2f %6d %7.1f %7d\n", m, f, c, p, n, w, u,
                k, u * 1e6 / p, k * 1048576 / p }'
        printf '{"model": "%s", "format": "%s", "command": "%s", "ranks": %d, "pieces": %d, "files": %d, ' \
            "$name" "$format" "$command" "$ranks" "$n_pieces" "$n_files" >>"$json"
        printf '"wall_s": %s, "cpu_s": %s, "peak_mib": %s}\n' "$wall" "$cpu" "$mib" >>"$json"
    done
    rm -rf "$work/model"
}

echo "$(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg), $ranks rank(s)"
printf '%-6s %-10s %-8s %8s %6s %7s %7s %6s %7s %7s\n' model format command pieces files wall_s cpu_s MiB us/pc B/pc
for format in ${formats//,/ }; do
    for n in ${stages//,/ }; do
        [[ $format != zero3 ]] || continue
        layers=$(((61 * n + 15) / 16))
        grid=(--tp 8 --pp "$n" --ep 64 --etp 4 --writers 1)
        [[ $format != fsdp ]] || grid=(--tp 16 --pp "$n")
        measure 1t "$format" --model 1t --layers "$layers" "${grid[@]}"
    done
    [[ $with_671b == yes ]] || continue
    grid=(--tp 8 --pp 16 --ep 64 --etp 1)
    [[ $format != fsdp ]] || grid=(--tp 16 --pp 16)
    [[ $format != zero3 ]] || grid=(--tp 16 --pp 16 --ep 64)
    measure 671b "$format" --model 671b "${grid[@]}"
done
