#!/usr/bin/env bash
# Changes checkpoints in every way that must not pass silently and merges each with the real program; keeps docs/measurements/metamorphic.json. `--help` says more.
# With the word states: changes steps, numbers, settings and groups of an optimizer and reshapes each; `states --help` says more.
# With the word factors: puts LoRA factors on each kind of matrix of every model and folds them; `factors --help` says more.
# With the word trips: writes every checkpoint's model in every form of reshape and reads it back; `trips --help` says more.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command -v python3 >/dev/null || { echo "SKIPPED: python3 is not installed"; exit 77; }
[[ "${1:-}" != trips ]] || exec python3 -B "$root/tests/metamorphic/trips.py" "${@:2}"
[[ "${1:-}" != states ]] || exec python3 -B "$root/tests/metamorphic/states.py" "${@:2}"
[[ "${1:-}" != factors ]] || exec python3 -B "$root/tests/metamorphic/factors.py" "${@:2}"
exec python3 -B "$root/tests/metamorphic/run.py" "$@"
