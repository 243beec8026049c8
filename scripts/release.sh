#!/usr/bin/env bash
# Makes a release from a tag: source archive, notes, wheel, checksums, and recipes that pin the archive. The same tag gives the same bytes, whenever and
# wherever it is made with the same tools. Options: see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
scripts/release.sh [options] TAG
  TAG           such as v0.1.0: a tag of this repository whose version CMakeLists.txt states
  --out DIR     where the files are put (default: dist)
  --url URL     the directory in which the archive will be found, for the recipes (default: file:// and DIR)
  --no_wheel    no wheel; needs git only

The recipes of packaging/ for Spack, EasyBuild and conda are put into DIR/recipes, with the archive's address and checksum for the checkout.

The wheel takes what scripts/test-wheel.sh takes, which builds it and tries it.
TEXT
}

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
out="$root/dist"
with_wheel=yes
url=''
tag=''
while (($#)); do
    case $1 in
        --out) out=$2; shift ;;
        --url) url=${2%/}; shift ;;
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
# Times are the commit's, the compressor writes none; what a user sets for git does not count.
archive() { git -C "$root" -c tar.umask=0002 -c core.autocrlf=false -c core.attributesFile=/dev/null archive --format=tar "$@"; }
archive --prefix="$name/" "$commit" | gzip -n -9 >"$out/$name.tar.gz"
made=("$name.tar.gz")
# Notes are the version's part of the changelog, which has to have a date.
git -C "$root" show "$commit:CHANGELOG.md" | awk -v head="^## ${version//./\\\\.} [(]20[0-9-]+[)]$" '/^## /{is_on = $0 ~ head} is_on' >"$out/$name.md"
[[ -s "$out/$name.md" ]] || fail "CHANGELOG.md has no part \"## $version (DATE)\""

# What a recipe takes from the checkout it lies in, it takes from the archive instead. (Inside the archive it could not say the checksum.)
write_recipes() { # SHA-256
    local from="$work/packaging" to="$out/recipes" easyconfig address
    archive "$commit" packaging | tar -C "$work" -x
    rm -rf "$to"
    mkdir -p "$to"/{conda,easybuild}
    cp -r "$from/spack" "$to"
    address="$(sed 's/ /%20/g; s/[&|\\]/\\&/g' <<<"${url:-file://$out}")"
    sed -i -e '/^import os$/,+1d' -e '/^    # The sources that/d' -e "s|^    version(.*|    version(\"$version\", sha256=\"$1\")|" \
        -e "s|^    git = .*|    url = \"$address/$name.tar.gz\"|" "$to/spack/packages/shardweld/package.py"
    easyconfig="$(basename "$from"/easybuild/shardweld-*.eb)"
    sed -e '/^# scripts/d' -e "s|^version = .*|version = '$version'|" -e "s|^sources = .*|source_urls = ['$address']\n&\nchecksums = ['$1']|" \
        "$from/easybuild/$easyconfig" >"$to/easybuild/$name-${easyconfig#shardweld-*-}"
    sed -e "s|^  version: \".*|  version: \"$version\"|" -e "s|^  path: .*|  url: $address/$name.tar.gz|" -e "s|^  filter: .*|  sha256: $1|" \
        "$from/conda/recipe.yaml" >"$to/conda/recipe.yaml"
    find "$to" -type f -exec sed -i '/^#/s|packaging/|recipes/|' {} +
    (($(grep -rlF "$1" "$to" | wc -l) == 3)) || fail "a recipe in $to does not pin the archive"
}
write_recipes "$(sha256sum <"$out/$name.tar.gz" | cut -d' ' -f1)"

if [[ -n "$with_wheel" ]]; then
    tar -C "$work" -xzf "$out/$name.tar.gz"
    SOURCE_DATE_EPOCH="$(git -C "$root" show -s --format=%ct "$commit")" "$work/$name/scripts/test-wheel.sh" --out "$work/wheel"
    cp "$work"/wheel/*.whl "$out"
    made+=("$(basename "$work"/wheel/*.whl)")
fi

(cd "$out" && sha256sum "${made[@]}" >"$name.sha256")
echo "in $out:"
cat "$out/$name.sha256"
echo "notes: $name.md"
echo "recipes, which take the archive from ${url:-file://$out}: recipes/"
