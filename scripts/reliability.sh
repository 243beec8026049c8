#!/usr/bin/env bash
# Makes the real program meet faults, kills its ranks, feeds it bad inputs; keeps the figures in docs/measurements/reliability.json and renders docs/measurements/reliability.md
# from them. Needs a build with tests, mpirun and python3. `--help` says more.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
exec python3 -B "$root/tests/faults/run.py" "$@"
