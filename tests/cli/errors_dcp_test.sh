#!/usr/bin/env bash
# Damaged and hostile DCP directories and HuggingFace models: each fault in a copy that is accepted without it.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
nested=torch/dcp_w2_bf16_qwen2
head=model.lm_head.weight
marker="$WORK/executed"

# dcp_fault NAME CODE RANKS TEXT... -- FAULT [arguments]: one call of damage.py on .metadata.
dcp_fault() {
    local name="$1" code="$2" ranks="$3" texts=()
    shift 3
    while [[ "$1" != -- ]]; do
        texts+=("$1")
        shift
    done
    start "$nested"
    damage "$2" "$source/.metadata" "${@:3}"
    refused "$name" "$code" "$ranks" "${texts[@]}"
}

start "$nested"
damage repickle "$source/.metadata"
accepted "metadata written again"
accepted "the model's part by name" --prefix model
more=(--prefix module)
refused "a prefix that nothing has" 3 0 "--prefix module" "model (27 tensors)" "meta.list (2 tensors)"
more=()
rm "$source/__1_0.distcp"
refused "missing file" 3 3 "__1_0.distcp"
start "$nested"
rm "$source/.metadata"
refused "no metadata" 3 0 ".distcp files but no .metadata"
dcp_fault "an item past the end of its file" 4 3 "__1_0.distcp" lm_head.weight "1000000000000" -- dcp_place "$head" offset 1000000000000
dcp_fault "an item that is too long" 4 0 lm_head.weight -- dcp_place "$head" length 1000000000000
dcp_fault "an item over the bytes of another" 4 3 "__1_0.distcp" lm_head.weight "where another chunk lies" -- dcp_place "$head" offset 3790
dcp_fault "chunks that overlap" 4 0 lm_head.weight overlap .metadata -- dcp_chunk "$head" 0 sizes 60,48
dcp_fault "a chunk that is not there" 4 0 lm_head.weight "not covered" -- dcp_drop_chunk "$head"
dcp_fault "another dtype" 6 0 lm_head.weight bfloat16 -- dcp_dtype "$head" float16
for path in ../../../../../etc/hostname /etc/hostname /dev/zero; do
    dcp_fault "a path that leaves: $path" 4 0 "$path" "leaves the checkpoint directory" -- dcp_path __1_0.distcp "$path"
done
dcp_fault "metadata that calls" 4 3 os.system .metadata -- call os system "touch $marker"
expect_absent "$marker"

start torch/dcp_nocollect_w2
accepted "metadata of ranks"
mv "$source/__1.metadata" "$WORK/aside"
refused "the metadata of the last rank missing" 3 3 "is not complete" "copy that of all ranks"
mv "$source/__0.metadata" "$source/__1.metadata"
refused "the metadata of the first rank missing" 3 0 "__0.metadata"
start torch/dcp_ema_safetensors_w2
refused "two models" 2 0 "ema (15 tensors), model (15 tensors)" "--prefix"
start torch/dcp_hf_w2_bf16_qwen2
accepted "shards of the HuggingFace writer"
# Without a recipe the vocabulary's rows prove that no rank is missing.
accepted "shards of the HuggingFace writer, names kept" --names module
mv "$source"/shard-00002-* "$WORK"
more=(--names module)
refused "the last shard missing, names kept" 5 0 shard-00001-model "nothing says whether it ends there"
more=()
refused "the last shard missing" 6 0 lm_head.weight
mv "$WORK"/shard-00002-* "$source"
rm "$source"/shard-00001-*
refused "missing shard" 3 0 "shard 1"

# safetensors headers: FAULT is Python that changes the header h or the data d.
st_fault() {
    start torch/dcp_hf_consolidated_w3
    rm -r "$source/sharded"
    python3 - "$source/model-00002-of-00002.safetensors" "$2" <<'PY' || fail "cannot make the fault: $1"
import json, struct, sys
with open(sys.argv[1], "rb") as file:
    blob = file.read()
n = struct.unpack("<Q", blob[:8])[0]
h, d = json.loads(blob[8:8 + n]), blob[8 + n:]
text = None
names = sorted((k for k in h if k != "__metadata__"), key=lambda k: h[k]["data_offsets"])
exec(sys.argv[2])
text = (text or json.dumps(h)).encode()
with open(sys.argv[1], "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text + d)
PY
    more=(--backend hf)
    if [[ "$3" == ok ]]; then
        accepted "$1" "${more[@]}"
    else
        refused "$1" "$3" "${@:4}"
    fi
    more=()
}
file=model-00002-of-00002.safetensors
st_fault "a header written again" "pass" ok
st_fault "bytes after the last tensor" "d += b'1234'" 4 3 "4 bytes follow" "$file"
st_fault "data cut off" "d = d[:-2]" 4 0 "cut short" "$file"
st_fault "a hole" "h[names[0]]['data_offsets'][0] += 2; h[names[0]]['shape'] = [(h[names[0]]['data_offsets'][1] - 2) // 2]" 4 0 "a hole" "$file"
st_fault "a shape of another size" "h[names[0]]['shape'] = [3]" 4 0 "shape [3]" "$file"
st_fault "a key twice" "text = '{' + json.dumps(h)[1:-1].replace('BF16', 'F16').replace('F32', 'I32') + ', ' + json.dumps(h)[1:]" 4 0 "comes twice" "$file"
st_fault "a tensor less than the index says" "b, e = h.pop(names[-1])['data_offsets']; d = d[:b]" 3 0 "the index says" "$file"
finish
