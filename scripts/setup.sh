#!/usr/bin/env bash
# Installs what building and running need on Debian 12 (apt only), and builds into build/.
# Usage: source scripts/setup.sh [extra Debian packages]; then call `install_packages` and `build_shardweld`.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
PACKAGES=(g++ cmake ninja-build pkg-config openmpi-bin libopenmpi-dev nlohmann-json3-dev libcxxopts-dev libxxhash-dev libisal-dev libssl-dev libre2-dev libhdf5-openmpi-dev python3)

install_packages() {
    local missing=()
    for package in "${PACKAGES[@]}" "$@"; do
        dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    if ((${#missing[@]} == 0)); then
        return
    fi
    echo "Installing: ${missing[*]}"
    local sudo=""
    if ((EUID != 0)); then
        sudo="sudo"
    fi
    $sudo apt-get update -q >/dev/null
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}" >/dev/null
}

# build_shardweld DIR TESTS PYTHON: each of them ON or OFF. All options are said each time: the cache of DIR remembers those of whoever was there
# before.
build_shardweld() {
    local dir="$1"
    cmake --preset release -S "$ROOT" -B "$dir" -DSHARDWELD_TESTS="$2" -DSHARDWELD_TORCH=ON -DSHARDWELD_HDF5=ON -DSHARDWELD_WERROR=ON \
        -DSHARDWELD_PYTHON="$3" -DPython3_EXECUTABLE=/usr/bin/python3 -DSHARDWELD_SANITIZE= >"$dir.configure.log" 2>&1 || { cat "$dir.configure.log"; return 1; }
    rm -f "$dir.configure.log"
    ninja -C "$dir"
}

# Lets root and machines with few cores run mpirun -n N.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none
# Ranks are not bound, so none needs to know the machine: reading its PCI devices is a third of what a start costs in a virtual one.
export HWLOC_COMPONENTS=-linux,-pci
