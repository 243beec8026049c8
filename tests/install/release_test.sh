#!/usr/bin/env bash
# scripts/release.sh: from a tag of a small repository come the same bytes twice, and recipes that pin the archive. Arguments: the built program,
# the tests' directory.
source "$(dirname "$0")/../cli/lib.sh"
ROOT="$(cd "$TESTS/.." && pwd)"

if ! command -v git >/dev/null; then
    echo "SKIPPED: git is not installed"
    exit 77
fi

check() { # WHAT COMMAND...
    local what="$1"
    shift
    "$@" >/dev/null 2>&1 || fail "$what"
}

clone="$WORK/clone"
mkdir "$clone"
cp -r "$ROOT"/{CHANGELOG.md,CMakeLists.txt,LICENSE,packaging,scripts} "$clone"
cat >"$clone/scripts/test-wheel.sh" <<'WHEEL'
#!/bin/sh
mkdir -p "$2" && echo "$SOURCE_DATE_EPOCH" >"$2/shardweld-of-one-minute-py3-none-any.whl"
WHEEL
version="$(sed -n 's/^project(shardweld VERSION \([0-9.]*\).*/\1/p' "$clone/CMakeLists.txt")"
git() { HOME="$WORK" command git -C "$clone" -c user.name=test -c user.email=test@localhost "$@"; }
git init -q
git add .
git commit -q -m "a release"
git tag "v$version"
git tag v99.0

# The second one lies elsewhere, is made later by a user with other habits, and from a checkout that goes on.
url=https://example.org/of/releases
expect_code 0 "$clone/scripts/release.sh" --no_wheel --out "$WORK/one" --url "$url" "v$version"
touch -d yesterday "$clone"/packaging/* && echo more >>"$clone/packaging/conda/recipe.yaml"
expect_code 0 env TZ=Asia/Tokyo LC_ALL=C.UTF-8 GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=tar.umask GIT_CONFIG_VALUE_0=0077 \
    bash -c 'umask 077 && exec "$@"' bash "$clone/scripts/release.sh" --no_wheel --out "$WORK/a second" --url "$url/" "v$version"
check "two releases of one tag differ" diff -r "$WORK/one" "$WORK/a second"
check "the checksum in shardweld-$version.sha256" bash -c "cd '$WORK/one' && sha256sum -c 'shardweld-$version.sha256'"

archive="shardweld-$version.tar.gz"
check "the notes are not the changelog's" test "$(head -1 "$WORK/one/shardweld-$version.md" | cut -d' ' -f1,2)" = "## $version"
sum="$(sha256sum "$WORK/one/$archive" | cut -d' ' -f1)"
cd "$WORK/one/recipes" || exit 1
spack=spack/packages/shardweld/package.py
check "Spack's version" grep -qxF "    version(\"$version\", sha256=\"$sum\")" $spack
check "Spack's address" grep -qxF "    url = \"$url/$archive\"" $spack
check "Spack's recipe is no Python" python3 -c "import ast; ast.parse(open('$spack').read())"
check "Spack's recipe knows the checkout" bash -c "! grep -E 'git|os\.' $spack"
check "EasyBuild's recipe" python3 - "$(echo easybuild/"shardweld-$version"-*.eb)" "$version" "$url" "$sum" <<'PYTHON'
import sys
found = {"SOURCE_TAR_GZ": "", "SYSTEM": "", "SHLIB_EXT": ""}
exec(open(sys.argv[1]).read(), found)
assert [found["version"], found["source_urls"], found["checksums"]] == [sys.argv[2], [sys.argv[3]], [sys.argv[4]]]
PYTHON
check "conda's address" grep -qxF "  url: $url/$archive" conda/recipe.yaml
check "conda's checksum" grep -qxF "  sha256: $sum" conda/recipe.yaml
check "conda's version" grep -qxF "  version: \"$version\"" conda/recipe.yaml
check "conda's recipe knows the checkout" bash -c '! grep -E "path:|filter:" conda/recipe.yaml'

# With a wheel there are two checksums; it is told the time of the commit.
expect_code 0 "$clone/scripts/release.sh" --out "$WORK/one" --url "$url" "v$version"
check "checksums of archive and wheel" bash -c "cd '$WORK/one' && sha256sum -c 'shardweld-$version.sha256' && ((\$(wc -l <'shardweld-$version.sha256') == 2))"
check "the time of the commit" test "$(cat "$WORK/one"/*.whl)" = "$(git show -s --format=%ct HEAD)"

# Without an address it is where the archive lies; recipes in the sources have the version of the sources.
expect_code 0 "$clone/scripts/release.sh" --no_wheel --out "$WORK/a second" "v$version"
check "an address without --url" grep -qF "file://${WORK// /%20}/a%20second/$archive" "$WORK/a second/recipes/$spack"
check "conda's recipe of the checkout has another version" grep -qF "version: \"$version\"" "$ROOT/packaging/conda/recipe.yaml"
check "EasyBuild's recipe of the checkout has another version" grep -qF "version = '$version'" "$ROOT/packaging/easybuild/shardweld-$version"-*.eb
expect_code 1 "$clone/scripts/release.sh" --no_wheel --out "$WORK/none" v99.0
expect_text "v99.0 is not v$version"
expect_code 1 "$clone/scripts/release.sh" --no_wheel --out "$WORK/none" v0.0
expect_text "there is no tag v0.0"
expect_absent "$WORK/none"

finish
