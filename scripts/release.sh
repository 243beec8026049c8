#!/usr/bin/env bash
# Makes a release from a tag: source archive, wheel, checksums. The same tag gives the same bytes, whenever and wherever it is made with the same
# tools. Options: see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/release.sh [options] TAG
  TAG           such as v0.1.0: a tag of this repository whose version CMakeLists.txt states
  --out DIR     where the files are put (default: dist)
  --no_wheel    the source archive alone; needs git only

The wheel takes what scripts/test-wheel.sh takes, which builds it and tries it.
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="$root/dist"
with_wheel=yes
tag=''
while (($#)); do
    case $1 in
        --out) out=$2; shift ;;
        --no_wheel) with_wheel='' ;;
        --help) usage; exit 0 ;;
        -*) echo "release.sh: unknown option $1" >&2; usage >&2; exit 2 ;;
        *) tag=$1 ;;
    esac
    shift
done
fail() { echo "release.sh: $*" >&2; exit 1; }

[[ -n "$tag" ]] || { usage >&2; exit 2; }
commit="$(git -C "$root" rev-parse --verify --quiet "refs/tags/$tag^{commit}")" || fail "there is no tag $tag"
version="$(git -C "$root" show "$commit:CMakeLists.txt" | sed -n 's/^project(shardweld VERSION \([0-9.]*\).*/\1/p')"
[[ "$tag" == "v$version" ]] || fail "$tag is not v$version, the version in its CMakeLists.txt"

mkdir -p "$out"
out="$(cd "$out" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
name="shardweld-$version"
# Times are the commit's, the compressor writes none.
git -C "$root" archive --format=tar --prefix="$name/" "$commit" | gzip -n -9 >"$out/$name.tar.gz"
made=("$name.tar.gz")

if [[ -n "$with_wheel" ]]; then
    tar -C "$work" -xzf "$out/$name.tar.gz"
    SOURCE_DATE_EPOCH="$(git -C "$root" show -s --format=%ct "$commit")" "$work/$name/scripts/test-wheel.sh" --out "$work/wheel"
    cp "$work"/wheel/*.whl "$out"
    made+=("$(basename "$work"/wheel/*.whl)")
fi

(cd "$out" && sha256sum "${made[@]}" >"$name.sha256")
echo "in $out:"
cat "$out/$name.sha256"
