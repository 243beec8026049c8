#!/usr/bin/env bash
# Files in the wrong place: of every real save each two rank directories, and each two shard files, exchanged, and one copied over another. The other
# ways are rows of tests/cases/provenance.txt. Usage: provenance_test.sh SHARDWELD TESTS
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# fresh CASE: a copy of a fixture in $CASE, its step's directory in $STEP.
fresh() {
    CASE="$WORK/case"
    rm -rf "$CASE"
    mkdir "$CASE"
    cp -r "$TESTS/data/$1/source" "$CASE/source"
    STEP="$(find "$CASE/source" -maxdepth 1 -type d \( -name 'iter_*' -o -name release \))"
}

inspect() {
    expect_code "$1" "$SHARDWELD" inspect --local_dir "$CASE/source" "${@:2}"
}

exchange() {
    mv "$1" "$WORK/aside" && mv "$2" "$1" && mv "$WORK/aside" "$2"
}

# standing_of: the standing that inspect tells.
standing_of() {
    "$SHARDWELD" inspect --local_dir "$CASE/source" --json 2>/dev/null | python3 -c 'import json, sys
print(json.load(sys.stdin)["provenance"]["standing"])'
}

expect_standing() {
    local found
    found="$(standing_of)"
    [[ "$found" == "$1" ]] || fail "$2: $found, expected $1"
}

# Of twelve ranks the neighbours and the ends.
exchange_ranks() {
    local name="$1" dirs a b
    fresh "$name"
    dirs=("$STEP"/mp_rank_*)
    for ((a = 0; a < ${#dirs[@]}; a++)); do
        for ((b = a + 1; b < ${#dirs[@]}; b++)); do
            ((${#dirs[@]} <= 4 || b == a + 1 || b == ${#dirs[@]} - 1)) || continue
            exchange "${dirs[a]}" "${dirs[b]}"
            inspect 6 || fail "$name: ${dirs[a]##*/} exchanged with ${dirs[b]##*/}"
            exchange "${dirs[a]}" "${dirs[b]}"
        done
    done
    cp -r "${dirs[0]}" "$WORK/aside" && cp "${dirs[1]}"/* "${dirs[0]}"
    inspect 6 || fail "$name: ${dirs[1]##*/} copied over ${dirs[0]##*/}"
    rm -rf "$WORK/aside"
}

for case in "$TESTS"/data/megatron{,_more}/*legacy*/; do
    name="${case#"$TESTS/data/"}"
    name="${name%/}"
    fresh "$name"
    if [[ "$name" == *-made && "$name" != *release* ]]; then
        expect_standing consistent "$name" # args without ranks
    else
        expect_standing proved "$name"
        [[ "$name" == *release* ]] || exchange_ranks "$name" # one file
    fi
done

# A torch_dist save: no two shard files fit into each other's place; the index of another save fits none.
for name in megatron/{qwen2-tp2-pp2,qwen3moe-tp2-ep2,deepseekv3-mtp-pp2,llama-tp2-optim}-torchdist-bf16; do
    fresh "$name"
    expect_standing consistent "$name"
    files=("$STEP"/*.distcp)
    for ((a = 0; a + 1 < ${#files[@]}; a++)); do
        exchange "${files[a]}" "${files[a + 1]}"
        timeout 180 "$SHARDWELD" inspect --local_dir "$CASE/source" >"$WORK/out" 2>&1
        code=$?
        [[ $code == 4 || $code == 6 ]] || fail "$name: ${files[a]##*/} exchanged with the next: $code"
        exchange "${files[a]}" "${files[a + 1]}"
    done
done
finish
