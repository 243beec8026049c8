#!/usr/bin/env bash
# Installs what the tests need (apt), builds everything and runs all tests, the readers' also under sanitizers. Options are passed on to ctest.
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"

install_packages libgtest-dev libtorch-dev hdf5-tools python3 util-linux iproute2 munge slurmctld slurmd slurm-client clang-format dpkg-dev file man-db tcl
build_shardweld "$ROOT/build" ON ON
"$ROOT/scripts/check_style.sh"
# Some two minutes, most of them to compile; not when only some tests are asked for.
(($# > 0)) || "$ROOT/scripts/fuzz.sh" --replay --seconds 4
ctest --test-dir "$ROOT/build" --no-tests=error --output-on-failure --parallel 4 "$@"
