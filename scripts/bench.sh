#!/usr/bin/env bash
# Times merges beside cp -r, plain parallel copying and other mergers in interleaved runs, keeps the figures in docs/measurements/performance.json
# and renders docs/measurements/performance.md from them. Needs shardweld, make_checkpoint, mpirun and python3. `--help` says more.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# More ranks than cores, and root in containers.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
# The launcher's own directory: beside the files under test its removal waits for the disk.
export OMPI_MCA_orte_tmpdir_base=/dev/shm

command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
exec python3 -B "$root/tests/bench/figures/run.py" "$@"
