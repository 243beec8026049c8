#!/usr/bin/env bash
# Installs what the tests need (apt), builds everything and runs all tests, the readers' also under sanitizers. Options are passed on to ctest.
# What was skipped, and why, stands at the end.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages libgtest-dev libtorch-dev hdf5-tools util-linux iproute2 munge slurmctld slurmd slurm-client clang clang-format dpkg-dev file man-db tcl \
    python3-dev python3-numpy python3-xxhash python3-zstandard libfuse3-dev fuse3
build_shardweld "$ROOT/build" ON ON
# Tests start Python a thousand times, for its standard library only: Debian's own starts in a tenth of the time that a version manager's
# wrapper takes. Tests that need packages use the one that was first on PATH.
export SHARDWELD_PYTHON="${SHARDWELD_PYTHON:-$(command -v python3)}" PATH="/usr/bin:$PATH"
status=0
ctest --test-dir "$ROOT/build" --no-tests=error --output-on-failure --parallel 6 "$@" || status=$?
grep -ha '^ *SKIPPED' "$ROOT/build/Testing/Temporary/LastTest.log" || true
exit "$status"
