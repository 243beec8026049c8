# Shared by the tests of bad input; source it after lib.sh.
# SHARDWELD_ALL_RANKS=1 runs every fault with three ranks, not only those marked so (slower).
place="$WORK/place"
mkdir "$place"

damage() {
    python3 "$TESTS/support/damage.py" "$@" || fail "cannot make the fault: $*"
}

# start CASE: a fresh copy of a fixture; sets source, iter (where the shards are), hf and options.
start() {
    rm -rf "$WORK/copy" "$place"/{*,.[!.]*}
    cp -r "$TESTS/data/$1" "$WORK/copy"
    source="$WORK/copy/source"
    iter="$(find "$source" -type d \( -name 'iter_*' -o -name dist_ckpt \) | head -1)"
    iter="${iter:-$source}"
    hf="$WORK/copy/hf"
    options=()
    [[ ! -d "$hf" ]] || options=(--hf_config "$hf")
    target="$place/model"
}

# merge_copy RANKS [options]: RANKS 0 means without mpirun.
merge_copy() {
    local ranks="$1" launcher=()
    shift
    [[ -z "${SHARDWELD_ALL_RANKS:-}" || "$ranks" != 0 ]] || ranks=3
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    merging=("${launcher[@]}" "$SHARDWELD" merge --local_dir "$source" --target_dir "$target" "${options[@]}" -q "$@")
}

# accepted NAME [options]: the copy as it is can be merged (alone), and leaves the model only.
accepted() {
    local name="$1"
    shift
    merge_copy 0 "$@"
    expect_code 0 "${merging[@]}" || echo "    (accepted: $name)"
    [[ -s "$target/config.json" ]] || fail "$name: no model"
    [[ "$(ls -A "$place")" == model ]] || fail "$name left $(ls -A "$place")"
    rm -rf "$target"
}

# refused NAME CODE RANKS TEXT...: the exit code, every text, one error line, in seconds, and nothing left. Options in more=().
more=()
refused() {
    local name="$1" code="$2" ranks="$3" begin="$SECONDS" text
    shift 3
    merge_copy "$ranks" "${more[@]}"
    expect_code "$code" "${merging[@]}" || echo "    (refused: $name)"
    [[ -z "${SHARDWELD_SHOW:-}" ]] || echo "$name [$code]: $(grep -A4 '^error:' "$WORK/err" | grep -v '^--' | head -6)"
    for text in "$@"; do
        expect_text "$text" || echo "    (refused: $name)"
    done
    [[ "$(grep -c '^error:' "$WORK/err")" == 1 ]] || fail "$name: $(grep -c '^error:' "$WORK/err") error lines"
    ((SECONDS - begin < 30)) || fail "$name took $((SECONDS - begin)) seconds"
    [[ -z "$(ls -A "$place")" ]] || fail "$name left $(ls -A "$place")"
}
