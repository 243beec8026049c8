#!/usr/bin/env bash
# HDF5 output and input from outside: bit-equal datasets at several numbers of ranks, as h5dump (and h5py, where $SHARDWELD_PYTHON has it)
# reads them; the way back to safetensors; ranks' files made by h5py; what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
python="${SHARDWELD_PYTHON:-python3}"
data="$TESTS/data/hdf5"
bin="$(dirname "$SHARDWELD")"

# same_hdf5 OUT EXPECTED [--h5py]
same_hdf5() {
    local reader=python3
    [[ "${3:-}" != --h5py ]] || reader="$python"
    "$reader" "$TESTS/support/compare_hdf5.py" "$@" >/dev/null 2>"$WORK/compare" || fail "$*: $(cat "$WORK/compare")"
}

# same_safetensors OUT EXPECTED
same_safetensors() {
    python3 "$TESTS/support/compare_safetensors.py" "$@" >/dev/null 2>"$WORK/compare" || fail "$*: $(cat "$WORK/compare")"
}

! ldd "$SHARDWELD" | grep -q hdf5 || fail "the program itself needs libhdf5"

if [[ ! -e "$bin/shardweld_hdf5.so" ]]; then
    llama="$TESTS/data/megatron/llama-tp4-legacy-bf16"
    expect_code 5 "$SHARDWELD" merge --local_dir "$llama/source" --hf_config "$llama/hf" --target_dir "$WORK/none" --output_format hdf5
    expect_text "this build has no HDF5"
    expect_absent "$WORK/none"
    expect_code 5 "$SHARDWELD" inspect "$data/llama-2ranks/source" --backend hdf5
    expect_text "this build has no HDF5"
    finish
    echo "SKIPPED: built without HDF5"
    exit 77
fi
command -v h5dump >/dev/null || fail "h5dump is not installed (Debian: hdf5-tools)"
has_h5py=1
"$python" -c 'import h5py' 2>/dev/null || { has_h5py=0; echo "SKIPPED in part: $python has no h5py"; }
[[ "$has_h5py" == 1 || ",${SHARDWELD_REQUIRE:-}," != *,h5py,* ]] || fail "h5py is required"

# Output: the same datasets at any number of ranks, by one rank and by all, in one file and in several; and back.
for name in llama-tp4-legacy-bf16 qwen3moe-tp2-ep2-torchdist-bf16; do
    dir="$TESTS/data/megatron/$name"
    for ranks in 0 1 2 3; do
        merge_case "$dir" "$WORK/$name-$ranks" "$ranks" --output_format hdf5 || continue
        same_hdf5 "$WORK/$name-$ranks" "$dir/expected"
        ((has_h5py == 0)) || same_hdf5 "$WORK/$name-$ranks" "$dir/expected" --h5py
    done
    merge_case "$dir" "$WORK/$name-parts" 3 --output_format hdf5 --max_shard_size 100KB --strategy collective --report "$WORK/report.json"
    (($(find "$WORK/$name-parts" -name 'model-*-of-*.h5' | wc -l) > 2)) || fail "$name: --max_shard_size made no parts"
    same_hdf5 "$WORK/$name-parts" "$dir/expected"
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hdf5 --local_dir "$WORK/$name-parts" --target_dir "$WORK/$name-back" -q
    same_safetensors "$WORK/$name-back" "$dir/expected"
done
# The report has the offsets at which the bytes really lie.
py "$WORK/report.json" "$WORK/$name-parts" "$WORK/$name-back" <<'E2' || fail "the report's offsets"
import json, os, sys
from compare_safetensors import read_model
tensors = read_model(sys.argv[3], False)
report = json.load(open(sys.argv[1]))
assert len(report["tensors"]) == len(tensors) > 10
for entry in report["tensors"]:
    with open(os.path.join(sys.argv[2], entry["file"]), "rb") as file:
        file.seek(entry["offset"])
        assert file.read(entry["bytes"]) == tensors[entry["name"]][2], entry["name"]
E2

# What fails while the files are made is an error like any other; then nothing is left.
dir="$TESTS/data/megatron/llama-tp4-legacy-bf16"
if faults_at "$dir" "$WORK/faulty"; then
    for ranks in 0 2; do
        launcher=()
        ((ranks == 0)) || launcher=(mpirun -n "$ranks")
        while read -r code reason fault; do
            rm -rf "$WORK/faulty"
            mkdir "$WORK/faulty"
            expect_code "$code" "${launcher[@]}" "${faulty[@]}" "side=output,path=model.h5,$fault" "$SHARDWELD" merge -q --local_dir "$dir/source" \
                --hf_config "$dir/hf" --target_dir "$WORK/faulty/model" --output_format hdf5
            [[ "$(grep -vc '^  see: ' "$WORK/err")" == 1 ]] || ((ranks > 0)) || fail "more than a message: $(cat "$WORK/err")"
            grep -q "^error: .*cannot .*model\.h5: .*(errno $reason)" "$WORK/err" && ! grep -qE "mca_|HDF5" "$WORK/err" ||
                fail "$fault, $ranks ranks: $(head -c 600 "$WORK/err")"
            [[ -z "$(ls -A "$WORK/faulty")" ]] || fail "$fault, $ranks ranks: left behind $(ls -A "$WORK/faulty")"
        done <<'E2'
8 28 call=write,phase=create,nth=1,times=1,do=error:28
8 122 call=write,phase=create,nth=1,times=0,do=error:122
8 28 call=write,phase=create,nth=2,times=0,do=error:28
7 5 call=resize,nth=1,times=1,do=error:5
8 28 call=open,phase=create,nth=1,times=1,do=error:28
7 5 call=close,phase=create,nth=1,times=1,do=error:5
E2
    done
fi

# A plan says that it estimates.
expect_code 0 "$SHARDWELD" plan --local_dir "$dir/source" --hf_config "$dir/hf" --output_format hdf5
grep -q "model.h5" "$WORK/out" && grep -q "estimates" "$WORK/out" || fail "plan: $(head -5 "$WORK/out")"

# Input: ranks' files in pieces.
for ranks in 1 2 3; do
    expect_code 0 mpirun -n "$ranks" "$SHARDWELD" merge --backend hdf5 --local_dir "$data/llama-2ranks/source" --target_dir "$WORK/pieces-$ranks" -q
    same_safetensors "$WORK/pieces-$ranks" "$data/llama-2ranks/expected"
done
expect_code 0 "$SHARDWELD" merge --backend hdf5 --local_dir "$data/llama-2ranks/source" --target_dir "$WORK/again" --output_format hdf5 -q
same_hdf5 "$WORK/again" "$data/llama-2ranks/expected"
# Every dtype, kept exactly, both ways.
for ranks in 1 3; do
    merge=(mpirun -n "$ranks" "$SHARDWELD" merge --backend hdf5 -q)
    expect_code 0 "${merge[@]}" --local_dir "$data/llama-dtypes/source" --target_dir "$WORK/dtypes-$ranks" --output_format hdf5
    same_hdf5 "$WORK/dtypes-$ranks" "$data/llama-dtypes/expected"
    ((has_h5py == 0)) || same_hdf5 "$WORK/dtypes-$ranks" "$data/llama-dtypes/expected" --h5py
    expect_code 0 "${merge[@]}" --local_dir "$WORK/dtypes-$ranks" --target_dir "$WORK/dtypes-back-$ranks"
    same_safetensors "$WORK/dtypes-back-$ranks" "$data/llama-dtypes/expected"
done
if ((has_h5py == 1)); then
    "$python" "$data/make.py" "$WORK/made" || fail "make.py"
    expect_code 0 mpirun -n 2 "$SHARDWELD" merge --backend hdf5 --local_dir "$WORK/made/llama-2ranks/source" --target_dir "$WORK/remade" -q
    same_safetensors "$WORK/remade" "$WORK/made/llama-2ranks/expected"
fi

# refuse CODE TEXT FILE...: a directory of these files is refused.
refuse() {
    local code="$1" text="$2"
    shift 2
    rm -rf "$WORK/bad"
    mkdir "$WORK/bad"
    cp "$@" "$data/llama-2ranks/source/config.json" "$WORK/bad/"
    expect_code "$code" mpirun -n 2 "$SHARDWELD" merge --backend hdf5 --local_dir "$WORK/bad" --target_dir "$WORK/refused"
    expect_text "$text"
    expect_text "$(basename "$1")"
    expect_absent "$WORK/refused"
}
head -c 3000 "$data/llama-2ranks/source/rank_1.h5" >"$WORK/truncated.h5"
head -c 5000 /dev/zero >"$WORK/zeros.h5"
cp "$dir/expected/"*.safetensors "$WORK/other.h5" 2>/dev/null || cp "$TESTS/data/hdf5/llama-2ranks/expected/model.safetensors" "$WORK/other.h5"
refuse 4 "the HDF5 library cannot read the file" "$WORK/truncated.h5" "$data/llama-2ranks/source/rank_0.h5"
refuse 4 "the HDF5 library cannot read the file" "$WORK/zeros.h5"
refuse 4 "the HDF5 library cannot read the file" "$WORK/other.h5"
refuse 4 "past the end" "$data/bad/past_end.h5"
refuse 4 "shardweld_dtype is BF16" "$data/bad/dtype_wrong.h5"
refuse 4 "shardweld_offsets" "$data/bad/piece_outside.h5"
refuse 5 "h5repack -l CONTI -f NONE" "$data/bad/compressed.h5"
# The lister ends with its reader, even if the merge ignores SIGPIPE.
{ (trap '' PIPE && sleep 0.5 && exec "$bin/shardweld_hdf5_list" "$data/llama-2ranks/source/rank_0.h5"); echo $? >"$WORK/code"; } | true
[[ "$(cat "$WORK/code")" == 141 ]] || fail "the lister without a reader exits with code $(cat "$WORK/code")"
refuse 5 "link to another file" "$data/bad/external_link.h5"
refuse 5 "in other files" "$data/bad/external_storage.h5"
refuse 3 "never written" "$data/bad/unwritten.h5"
rm -rf "$WORK/bad" && mkdir "$WORK/bad" && cp "$data/llama-2ranks/source/"{rank_0.h5,config.json} "$WORK/bad/"
expect_code 3 "$SHARDWELD" merge --backend hdf5 --local_dir "$WORK/bad" --target_dir "$WORK/refused"
expect_text "no file holds the elements"
# Never unasked.
expect_code 5 "$SHARDWELD" merge --local_dir "$data/llama-2ranks/source" --target_dir "$WORK/refused"
expect_text "--backend hdf5"
expect_absent "$WORK/refused"
finish
