# Shared by the tests of targets; source it after lib.sh. SHARDWELD_ALL_RANKS=1 runs every merge with three ranks (slower).
place="$WORK/place"
mkdir "$place"

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
