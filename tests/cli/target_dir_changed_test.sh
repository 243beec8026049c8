#!/usr/bin/env bash
# What is published is what was written: files, directories and parents that are changed in the middle of a merge, as cleaners of scratch
# space do, end it with an error, and an older model stays.
# Usage: target_dir_changed_test.sh SHARDWELD TESTS-DIR (the fault library lies in ../lib, seen from the program)
source "$(dirname "$0")/lib.sh"
source="$WORK/source"
place="$WORK/place"
target="$place/model"

# A model of a few megabytes: rounds of several writes.
python3 - "$source" <<'PYTHON'
import json, os, random, struct, sys
os.makedirs(sys.argv[1])
hidden, vocab = 256, 4096
shapes = {"model.embed_tokens.weight": [vocab, hidden], "model.norm.weight": [hidden]}
for name, shape in {"input_layernorm": [hidden], "post_attention_layernorm": [hidden], "self_attn.q_proj": [hidden, hidden],
                    "self_attn.k_proj": [hidden, hidden], "self_attn.v_proj": [hidden, hidden], "self_attn.o_proj": [hidden, hidden],
                    "mlp.gate_proj": [512, hidden], "mlp.up_proj": [512, hidden], "mlp.down_proj": [hidden, 512]}.items():
    shapes[f"model.layers.0.{name}.weight"] = shape
header, data, random = {}, b"", random.Random(1)
for name, shape in shapes.items():
    count = shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * count]}
    data += struct.pack(f"<{count}f", *(random.random() for _ in range(count)))
text = json.dumps(header).encode()
open(sys.argv[1] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "vocab_size": vocab, "num_hidden_layers": 1,
           "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 512, "rms_norm_eps": 1e-5, "rope_theta": 1e4,
           "max_position_embeddings": 64, "tie_word_embeddings": True, "torch_dtype": "float32"}, open(sys.argv[1] + "/config.json", "w"))
open(sys.argv[1] + "/tokenizer.json", "w").write("{}")
PYTHON

merging=("$SHARDWELD" merge -q --no_fsync --backend hf --local_dir "$source" --memory_limit 1MiB)
expect_code 0 "${merging[@]}" --target_dir "$WORK/reference" || { finish; exit 1; }
expect_code 0 "${merging[@]}" --target_dir "$WORK/again" --paranoid --overwrite
expect_code 0 mpirun -n 2 "${merging[@]/--no_fsync/--direct_io}" --target_dir "$WORK/again" --paranoid --overwrite
diff -r -x shardweld_report.json "$WORK/reference" "$WORK/again" >/dev/null || fail "--paranoid writes another model"
faults_at "$source" "$place" || { finish; exit; }

anew() {
    rm -rf "$place" "$place.moved" "$WORK/counts"
    mkdir -p "$target" "$WORK/counts"
    echo old >"$target/model.safetensors"
}

# meddled CODE TEXT FAULT SCRIPT OPTIONS...: two ranks, started in $from, merge over an older model, and the script runs where the fault says,
# with the file's path. The older model is still there, wherever the place is by now.
meddled() {
    local code="$1" text="$2" fault="$3" script="$4" at="$place"
    shift 4
    anew
    SHARDWELD_FAULT_SCRIPT="$script" expect_code "$code" env --chdir "${from:-/}" mpirun -n 2 "${faulty[@]}" "$fault,do=script" "${merging[@]}" \
        --target_dir "$([[ -n "$from" ]] && echo . || echo "$target")" --overwrite "$@" || echo "    script: $script $*"
    [[ -z "$text" ]] || expect_text "$text"
    [[ -s "$WORK/counts/struck.0" || -s "$WORK/counts/struck.1" ]] || fail "nothing happened: $script"
    [[ ! -e "$place.moved" ]] || at="$place.moved"
    [[ "$(cat "$at/model/model.safetensors")" == old ]] || fail "the older model is gone: $script $*: $(ls -lA "$at" "$at/model")"
}
third="call=write,side=output,phase=execute,path=model.safetensors,rank=0,nth=3"
beside="call=close,side=output,phase=publish,path=tokenizer.json,rank=0"
other="another program changed it while this run wrote it"
partial=.model.shardweld-partial
replace='cp "$1" "$1.new" && mv "$1.new" "$1"'
punch='fallocate -p -o 8192 -l 65536 "$1"'
move_parent="mv $place $place.moved && mkdir $place"

# Started elsewhere, and in the target, which then stays and holds the partial directory.
for from in "" "$target"; do
    written="$place/$partial"
    [[ -z "$from" ]] || written="$target/.shardweld-partial"
    meddled 7 "is gone: $other" "$third" 'rm "$1"'
    meddled 7 "bytes, expected" "$third" 'truncate -s 100000 "$1"'
    meddled 7 "holds other bytes" "$third" "$punch"
    meddled 12 "is no longer the directory that this run writes" "$third" "mv $written $place/moved"
    meddled 12 "is no longer the directory that this run writes" "$third" "$move_parent"
done
from=""
meddled 7 "is another file than the one that was written: $other" "$third" "$replace"
meddled 7 "bytes, expected" "$third" 'truncate -s +1 "$1"'
meddled 7 "holds other bytes" "$third" 'printf x | dd of="$1" bs=1 seek=20 conv=notrunc 2>/dev/null'
meddled 7 "has the mode 0600" "$third" 'chmod 600 "$1"'
meddled 12 "is none of the files that this run wrote" "$third" 'touch "$(dirname "$1")/more"'
meddled 12 "is no longer the directory that this run writes" "$third" "cp -r $place/$partial $place/copy && mv $place/$partial $place/moved && mv $place/copy $place/$partial"
meddled 7 "tokenizer.json is gone" "$beside" 'rm "$1"'
meddled 7 "tokenizer.json has 0 bytes, expected 2" "$beside" 'truncate -s 0 "$1"'
meddled 7 "tokenizer.json holds other bytes" "$beside" 'printf "[]" >"$1"'
meddled 7 "holds other bytes" "$beside" "$punch"' 2>/dev/null || true; fallocate -p -o 8192 -l 65536 "$(dirname "$1")/model.safetensors"'
# A file that is cut just before its last bytes are written has its size again.
expect_code 0 mpirun -n 2 "${faulty[@]}" "call=write,side=output,phase=execute,path=model.safetensors,rank=1,times=0,do=slow:0" "${merging[@]}" --target_dir "$target" --overwrite --restart
meddled 7 "holds other bytes" "call=write,side=output,phase=execute,path=model.safetensors,rank=1,nth=$(wc -l <"$WORK/counts/struck.1")" 'truncate -s 50000 "$1"'
# What no sample shows, --paranoid does.
scribble='printf xyz | dd of="$1" bs=1 seek=2500000 conv=notrunc 2>/dev/null'
meddled 7 "holds other bytes" "$beside" "${scribble/\"\$1\"/\"\$(dirname \"\$1\")/model.safetensors\"}" --paranoid

# With checksums, in several files, in HDF5, and inside of the target.
for script in 'rm "$1"' 'truncate -s 100000 "$1"' "$punch"; do
    meddled 7 "" "$third" "$script" --sha256 --report "$WORK/report.json"
done
meddled 7 "is gone" "call=open,side=output,phase=publish,path=tokenizer.json,rank=0" 'rm "$(dirname "$1")/model.safetensors"' --sha256 --report "$WORK/report.json"
meddled 7 "is gone" "${third/model.safetensors/model-00001-of}" 'rm "$1"' --max_shard_size 500KB
if [[ -e "$(dirname "$SHARDWELD")/shardweld_hdf5.so" ]]; then
    in_hdf5="${third/model.safetensors/model.h5}"
    meddled 7 "is gone" "$in_hdf5" 'rm "$1"' --output_format hdf5
    meddled 7 "holds other bytes" "$in_hdf5" "$punch" --output_format hdf5
    meddled 7 "holds other bytes" "$in_hdf5" 'fallocate -p -o 0 -l 2048 "$1"' --output_format hdf5
    expect_code 0 mpirun -n 2 "${merging[@]}" --target_dir "$target" --overwrite --resume --output_format hdf5
    expect_code 0 mpirun -n 2 "${merging[@]}" --target_dir "$WORK/hdf5" --output_format hdf5
    cmp -s "$target/model.h5" "$WORK/hdf5/model.h5" || fail "a damaged HDF5 file is resumed to another one"
fi

# What was damaged is written again.
meddled 7 "holds other bytes" "$third" "$punch"
expect_code 0 mpirun -n 2 "${merging[@]}" --target_dir "$target" --overwrite --resume
diff -r -x shardweld_report.json "$WORK/reference" "$target" >/dev/null || fail "another model is resumed"
# Without an older model nothing is there.
anew
rm -r "$target"
SHARDWELD_FAULT_SCRIPT='rm "$1"' expect_code 7 mpirun -n 2 "${faulty[@]}" "$third,do=script" "${merging[@]}" --target_dir "$target"
expect_absent "$target"
finish
