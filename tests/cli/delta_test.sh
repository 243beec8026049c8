#!/usr/bin/env bash
# delta: versions that a receiver rebuilds the very bytes of the new model from, the same however many threads there are, and none of a wrong base.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$WORK" || exit 1

models() {
    python3 "$TESTS/support/delta_models.py" "$@" || fail "models: $*"
}

# receives VERSION OLD NEW MADE: in the terms of engines' receivers, which shardweld has no part in.
receives() {
    models apply "$1" "$2" "$4" && models same "$4" "$3" || fail "$1 does not make $3 of $2"
}

# Without its packages the command says which are missing.
models make v0 1
mkdir -p blocked/zstandard
echo 'raise ImportError' >blocked/zstandard/__init__.py
expect_code 3 env PYTHONPATH="$PWD/blocked" "$SHARDWELD" delta v0 v0 none && expect_text "zstandard, which"
SHARDWELD_PYTHON=python3 python_with delta numpy xxhash zstandard

models step v0 v1 0.03 2
models step v1 v2 0.03 3

# A chain, whose every link is proved.
expect_code 0 "$SHARDWELD" delta v0 v1 chain && expect_out "6 of 13 tensors, in 1 file, read back and proved"
expect_out "no version before it"
expect_code 0 "$SHARDWELD" delta v1 v2 chain
expect_out "6 tensors of PREV proved to be those of weight_v000001; 7 that no version lists could not be looked at"
receives chain/weight_v000001 v0 v1 r1
receives chain/weight_v000002 r1 v2 r2

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

# The same bytes from any number of threads, of several files, and once where ranks are started; beside whole noise it says that it does not pay.
models make big0 4 100000
models step big0 big1 0.0001 5
expect_code 0 "$SHARDWELD" delta big0 big1 alone && expect_out "in 3 files"
expect_code 0 mpirun -n 3 taskset -c 0 "$SHARDWELD" delta big0 big1 three --json && expect_out '"files": 3'
same_files alone three "one thread, among three ranks"
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
same_files alone killed "behind a kill"
[[ "$(ls -A killed)" == weight_v000001 ]] || fail "leftovers: $(ls -A killed)"

# Stopped in order while another run waits its turn, and held back.
"$SHARDWELD" delta big0 big1 stopped --bw_limit 8MB >/dev/null 2>"$WORK/err" &
pid=$!
for _ in $(seq 2000); do
    compgen -G 'stopped/.weight_v000001.shardweld-partial/part-*' >/dev/null && break
    sleep 0.005
done
expect_code 15 "$SHARDWELD" delta big0 big1 stopped && expect_text "process $pid on host"
sleep 2
kill -TERM "$pid"
code=0
wait "$pid" || code=$?
[[ "$code" == 11 && -z "$(ls -A stopped)" ]] || fail "stopped with $code: $(cat "$WORK/err"; ls -A stopped)"
begin="$(date +%s)"
expect_code 0 "$SHARDWELD" delta v0 v1 slowly --bw_limit 100K
(($(date +%s) - begin >= 2)) || fail "--bw_limit does not hold the command back"

# What its users had before names the command.
for option in --delta_against --delta_dir; do
    expect_code 2 "$SHARDWELD" merge v0 none "$option" v1 && expect_text "shardweld delta"
done

# Versions whose index leads elsewhere, or says nothing.
cp -r chain outside && sed -i 's#"model-00000-of-00001.safetensors"#"../../chain/weight_v000002/model-00000-of-00001.safetensors"#' outside/weight_v000002/model.safetensors.index.json
expect_code 4 "$SHARDWELD" delta v2 v2 outside && expect_text "leaves the directory"
rm outside/weight_v000002/model.safetensors.index.json && mkfifo outside/weight_v000002/model.safetensors.index.json
expect_code 5 "$SHARDWELD" delta v2 v2 outside
rm outside/weight_v000002/model.safetensors.index.json
expect_code 3 "$SHARDWELD" delta v2 v2 outside

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
expect_code 3 "$SHARDWELD" delta "$TESTS/data/torch/dcp_w2_bf16_qwen2/source" v1 none && expect_text "merge it first"
mkdir gguf && touch gguf/model.gguf gguf/config.json
expect_code 5 "$SHARDWELD" delta v0 gguf none
cp -r v0 stale && cp stale/model-00001-of-00002.safetensors stale/model.safetensors
expect_code 4 "$SHARDWELD" delta stale v1 none && expect_text "belongs to another model"
expect_code 3 "$SHARDWELD" delta v0 v1 v0/config.json/x && expect_text "is not a directory"
expect_code 2 "$SHARDWELD" delta v0 v1 none --bw_limit 3x
expect_code 2 "$SHARDWELD" delta v0 v1 && expect_text "--versions"
[[ ! -e none ]] || fail "a refused delta made its directory"
finish
