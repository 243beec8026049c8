#!/usr/bin/env bash
# The .deb package: made, installed into a root of its own, run, removed. Arguments: the built program, the tests' directory, the build directory.
source "$(dirname "$0")/../cli/lib.sh"
BUILD="$3"
CASE="$TESTS/data/megatron/llama-tp4-legacy-bf16"
export PATH=$PATH:/usr/sbin:/sbin

for tool in cpack dpkg dpkg-deb dpkg-shlibdeps apt-get file; do
    if ! command -v "$tool" >/dev/null; then
        echo "SKIPPED: .deb package: $tool is not installed"
        [[ ",${SHARDWELD_REQUIRE:-}," != *,deb,* ]] || { echo "FAILED: deb is required"; exit 1; }
        exit 77
    fi
done

expect_code 0 cpack --config "$BUILD/CPackConfig.cmake" -B "$WORK/packages" -D CPACK_COMPONENTS_ALL=program || finish
package="$(echo "$WORK"/packages/shardweld_*.deb)"

# What it needs is what its libraries come in, and can be installed here.
depends="$(dpkg-deb -f "$package" Depends)"
needed="libc6 libopenmpi3 libxxhash0 libisal2 libre2"
[[ ! -e "$BUILD/bin/shardweld_hdf5.so" ]] || needed+=" libhdf5-openmpi"
for library in $needed; do
    [[ ", $depends" == *", $library"* ]] || fail "$library is not among what the package depends on: $depends"
done
expect_code 0 apt-get install --simulate -o Debug::NoLocking=1 "$package"

root="$WORK/root"
if ((EUID == 0)); then
    # Its scripts run outside of the root, which has no shell; they call ldconfig, but not this machine's.
    dpkg=(env "PATH=$WORK/bin:$PATH" dpkg "--root=$root" --force-depends --force-script-chrootless)
    mkdir -p "$WORK/bin" "$root/var/lib/dpkg/"{info,updates}
    touch "$root/var/lib/dpkg/status"
    ln -s "$(command -v true)" "$WORK/bin/ldconfig"
    expect_code 0 "${dpkg[@]}" -i "$package"
else
    dpkg-deb -x "$package" "$root"
fi
SHARDWELD="$root/usr/bin/shardweld"
expect_code 0 "$SHARDWELD" --version
merge_case "$CASE" "$WORK/merged" 2
same_as_expected "$CASE" "$WORK/merged"
if [[ -e "$BUILD/bin/shardweld_hdf5.so" ]]; then
    merge_case "$CASE" "$WORK/hdf5" 2 --output_format hdf5
fi
if ((EUID == 0)); then
    expect_code 0 "${dpkg[@]}" -P shardweld
    [[ -z "$(find "$root" -path "$root/var" -prune -o -type f -print)" ]] || fail "files stay when the package is removed"
fi

finish
