#!/usr/bin/env bash
# Nothing in a checkpoint's directory is passed over in silence.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data"
report="$WORK/report.json"

# start CASE: a copy of a fixture in $WORK/copy; options in $options.
start() {
    rm -rf "$WORK/copy" "$WORK/out_dir"
    cp -r "$data/$1" "$WORK/copy"
    with_tokenizer "$WORK/copy"
    source="$WORK/copy/source"
    [[ -d "$source" ]] || source="$WORK/copy"
    options=(--local_dir "$source" --target_dir "$WORK/out_dir")
    [[ ! -d "$WORK/copy/hf" ]] || options+=(--hf_config "$WORK/copy/hf")
}

# merged CODE [options]: alone and with several ranks.
merged() {
    local code="$1" launcher
    shift
    for launcher in "" "mpirun -n 3"; do
        rm -rf "$WORK/out_dir"
        expect_code "$code" $launcher "$SHARDWELD" merge "${options[@]}" --report "$report" "$@"
        ((code == 0)) || expect_absent "$WORK/out_dir"
    done
}

# row PATTERN COUNT BYTES: of the ledger of the last merge.
row() {
    python3 - "$report" "$@" <<'P' || fail "no row $* in the ledger"
import json, sys
ledger = json.load(open(sys.argv[1]))["ledger"]
rows = [(r["pattern"], str(r["count"]), str(r["bytes"])) for r in ledger["ignored"]]
sys.exit(0 if tuple(sys.argv[2:]) in rows else str(rows))
P
}

# warned TEXT: told, and refused under --strict.
warned() {
    merged 0
    expect_text "$1"
    merged 14 --strict
    expect_text "$1"
}

# What trainers leave is no matter.
start torch/fsdp2_w4_bf16_qwen2_tied
mkdir "$source/runs" "$source/optimizer_0"
touch "$source"/{data.pt,trainer_state.json,README.md} "$source/optimizer_0/__0_0.distcp"
echo 12 | tee "$source"/{optim_world_size_4_rank_1.pt,training_args.bin,rng_state_0.pth,scheduler.pt} "$source/runs/events.out.tfevents.1" >/dev/null
merged 0 --strict
row "training_args.bin" 1 3

# Another save in the same directory: of another world size, in another format, in a directory below.
start torch/fsdp2_w4_bf16_cudaloc
cp "$data"/torch/fsdp1_w2_fp32_llama/source/model_world_size_2_* "$source"
warned "2 files with 157 kB could hold weights of this model but are not read: model_world_size_2_rank_0.pt, model_world_size_2_rank_1.pt"
start torch/fsdp2_w4_bf16_cudaloc
cp "$data"/torch/dcp_w2_bf16_qwen2/source/{.metadata,*.distcp} "$source"
merged 2
expect_text "holds a verl FSDP checkpoint (world size 4) and a torch DCP checkpoint"
for code in 0 14; do
    merged "$code" --backend fsdp $( ((code == 0)) || echo --strict)
    expect_text "2 files with 179 kB could hold weights of this model but are not read: __0_0.distcp, __1_0.distcp"
done
row "__1_0.distcp" 1 "$(stat -c %s "$source/__1_0.distcp")"
start torch/dcp_w2_bf16_qwen2
cp -r "$data/megatron/llama-tp4-legacy-bf16/source" "$source/older"
warned "older/iter_0000010/mp_rank_00/model_optim_rng.pt"
start megatron/llama-tp4-legacy-bf16
cp "$source"/iter_*/mp_rank_00/model_optim_rng.pt "$WORK/model.pt"
cp "$WORK/model.pt" "$(echo "$source"/iter_*/mp_rank_01)/model.pt"
warned "mp_rank_01/model.pt"
start megatron/qwen2-tp2-pp2-torchdist-bf16
cp "$WORK/model.pt" "$source"
warned "1 file with"
start torch/dcp_w2_bf16_qwen2
mkdir "$source/secret"
touch "$source/secret/x.pt"
if ((EUID != 0)); then
    chmod 0 "$source/secret"
    warned "secret/"
    chmod 700 "$source/secret"
fi

# HuggingFace models: a shard and tensors that the index leaves out, a numbered file that is missing.
start torch/dcp_hf_consolidated_w3
options+=(--backend hf)
merged 0 --strict
cp "$source/model-00001-of-00002.safetensors" "$source/model-00003.safetensors"
warned "model-00003.safetensors"
rm "$source/model-00003.safetensors"
python3 - "$source/model.safetensors.index.json" <<'P'
import json, sys
index = json.load(open(sys.argv[1]))
index["weight_map"] = {n: f for n, f in index["weight_map"].items() if "layernorm" not in n}
json.dump(index, open(sys.argv[1], "w"))
P
rm -rf "$WORK/out_dir"
expect_code 6 "$SHARDWELD" merge "${options[@]}" && expect_text "layernorm"
start torch/dcp_hf_consolidated_w3
options+=(--backend hf)
rm "$source/model.safetensors.index.json" "$source/model-00002-of-00002.safetensors"
merged 3
expect_text "model-00002-of-00002.safetensors"
start torch/dcp_hf_consolidated_w3
rm -r "$source"/model* "$source"/sharded/*-00001-of-00002.safetensors
merged 3
expect_text "shard-*-model-00001-of-00002.safetensors"

# rezipped FILE CHANGE: a torch file with other records; CHANGE changes the dictionary `records`, from names without the archive's.
rezipped() {
    python3 - "$@" <<'P' || fail "cannot rewrite $1"
import pathlib, sys, zipfile
def read(path):
    archive = zipfile.ZipFile(path)
    return {e.filename.split("/", 1)[1]: archive.read(e) for e in archive.infolist() if "/.data/" not in e.filename}
path = pathlib.Path(sys.argv[1])
records = read(path)
exec(sys.argv[2])
with zipfile.ZipFile(path, "w") as out:
    for name, data in records.items():
        out.writestr(f"{path.stem}/{name}", data)
P
}

# One rank's bytes below another rank's metadata.
start torch/fsdp2_w4_bf16_cudaloc
rezipped "$source/model_world_size_4_rank_2.pt" '
first = read(path.parent / "model_world_size_4_rank_1.pt")
records = {name: first[name] if name.startswith("data/") else data for name, data in records.items()}'
merged 6
expect_text "model_world_size_4_rank_1.pt and model_world_size_4_rank_2.pt hold the same bytes for all"

finish
