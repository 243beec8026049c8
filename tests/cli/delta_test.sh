#!/usr/bin/env bash
# delta: versions that a receiver rebuilds the very bytes of the new model from, the same at any number of ranks, and none of a wrong base.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$WORK" || exit 1

models() {
    python3 "$TESTS/support/delta_models.py" "$@" || fail "models: $*"
}

# receives VERSION OLD NEW MADE: in the terms of engines' receivers, which shardweld has no part in.
receives() {
    if ((has_receiver)); then
        "$python" "$TESTS/support/delta_models.py" apply "$1" "$2" "$4" && models same "$4" "$3" || fail "$1 does not make $3 of $2"
    fi
}

python="${SHARDWELD_PYTHON:-python3}"
has_receiver=1
"$python" -c 'import xxhash, zstandard' 2>/dev/null || { has_receiver=0; echo "SKIPPED in part: $python has not both of xxhash and zstandard"; }
[[ ",${SHARDWELD_REQUIRE:-}," != *,delta,* ]] || ((has_receiver)) || fail "delta is required"

models make v0 1
models step v0 v1 0.03 2
models step v1 v2 0.03 3

# A chain, whose every link is proved.
expect_code 0 "$SHARDWELD" delta v0 v1 chain && expect_out "6 of 13 tensors, in 1 file, read back and proved"
expect_out "no version before it"
expect_code 0 "$SHARDWELD" delta v1 v2 chain
expect_out "6 tensors of PREV proved to be those of weight_v000001; 7 that no version lists could not be looked at"
receives chain/weight_v000001 v0 v1 r1
((has_receiver)) && receives chain/weight_v000002 r1 v2 r2

# Nothing has changed: a version without tensors, so that versions and steps keep in step.
expect_code 0 "$SHARDWELD" delta v2 v2 chain && expect_out "0 of 13 tensors, in 0 files"
[[ "$(ls chain/weight_v000003)" == model.safetensors.index.json ]] || fail "files of nothing: $(ls chain/weight_v000003)"
receives chain/weight_v000003 v2 v2 r3

# A base that the last version does not lead to; what is there stays as it is.
before="$(sum_of chain)"
expect_code 6 "$SHARDWELD" delta v0 v1 chain
expect_text "v0 is not the model that chain/weight_v000003 leads to"
expect_text "tensor layers.0.a.weight"
[[ "$(ls -A chain)" == "$(printf 'weight_v00000%d\n' 1 2 3)" && "$(sum_of chain)" == "$before" ]] || fail "a refused version left $(ls -A chain)"

# Other checksums than this program's are not taken for proofs.
cp -r chain other_sums
sed -i 's/xxh3-128/blake3/' other_sums/weight_v000003/model.safetensors.index.json
expect_code 5 "$SHARDWELD" delta v2 v1 other_sums && expect_text "does not say that its checksums are xxh3-128"

# The same bytes from any number of ranks, of several files; beside whole noise it says that it does not pay.
models make big0 4 100000
models step big0 big1 0.0001 5
expect_code 0 "$SHARDWELD" delta big0 big1 alone && expect_out "in 3 files"
expect_code 0 mpirun -n 3 "$SHARDWELD" delta big0 big1 three --json && expect_out '"files": 3'
same_files alone three
receives alone/weight_v000001 big0 big1 rbig
models make noise 6
expect_code 0 "$SHARDWELD" delta v0 noise noisy && expect_text "more than half as large as the model"
receives noisy/weight_v000001 v0 noise rnoise

# Killed in the middle: nothing is there to be read, and the next run makes the same version.
"$SHARDWELD" delta big0 big1 killed >/dev/null 2>&1 &
pid=$!
for _ in $(seq 2000); do
    compgen -G 'killed/.weight_v000001.shardweld-partial/part-*' >/dev/null && break
    sleep 0.005
done
kill -9 "$pid"
wait "$pid" 2>/dev/null
[[ ! -e killed/weight_v000001 && -e killed/.weight_v000001.shardweld-partial ]] || fail "not killed in the middle: $(ls -A killed)"
expect_code 0 mpirun -n 2 "$SHARDWELD" delta big0 big1 killed
same_files alone killed
[[ "$(ls -A killed)" == weight_v000001 ]] || fail "leftovers: $(ls -A killed)"

# Models that do not fit, and damaged ones.
cp -r v1 shape && sed -i 's/"shape": \[64, 96\]/"shape": [96, 64]/g' shape/model-00001-of-00002.safetensors
expect_code 6 "$SHARDWELD" delta v0 shape none
expect_text "differ in the names, dtypes or shapes of 7 tensors"
expect_text "tensor layers.0.a.weight; found BF16 [96, 64], expected BF16 [64, 96]"
cp -r v1 dtype && sed -i '0,/"BF16"/s//"F16" /' dtype/model-00001-of-00002.safetensors
expect_code 6 "$SHARDWELD" delta v0 dtype none && expect_text "of 1 tensor"
cp -r v1 names && sed -i 's/layers.4.b/layers.4.c/' names/*
expect_code 6 "$SHARDWELD" delta v0 names none && expect_text "no such tensor"
cp -r v0 short && truncate -s -1 short/model-00002-of-00002.safetensors
expect_code 4 "$SHARDWELD" delta short v1 none && expect_text "model-00002-of-00002.safetensors"
expect_code 3 "$SHARDWELD" delta absent v1 none
expect_code 2 "$SHARDWELD" delta v0 v1 && expect_text "three directories are needed"
[[ ! -e none ]] || fail "a refused delta made its directory"
finish
