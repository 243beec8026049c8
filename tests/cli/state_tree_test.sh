#!/usr/bin/env bash
# reshape --state of module trees: an optimizer's states in torch DCP, verl's FSDP2, DeepSpeed ZeRO-2 and 3 and in a model's directory, held
# against what torch.optim.AdamW and DeepSpeed's engine had; and what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data/optimizer"

# states CODE RANKS SOURCE OUT [options]
states() {
    local code="$1" ranks="$2" source="$3" out="$4" launcher=() config=()
    shift 4
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    [[ -z "${hf:-}" ]] || config=(--hf_config "$hf")
    rm -rf "$out"
    expect_code "$code" "${launcher[@]}" "$SHARDWELD" reshape "$source" "$out" --to hf --state all --no_fsync "${config[@]}" "$@"
}
# same_states CASE OUT: weights and states byte for byte, and the step.
same_states() {
    local name
    same_tensors "$2/model.safetensors" "$data/$1/expected/model.safetensors" "$1 model"
    for name in param exp_avg exp_avg_sq; do
        same_tensors "$2/optimizer/$name.safetensors" "$data/$1/expected/$name.safetensors" "$1 $name"
    done
    python3 - "$2/optimizer/optimizer.json" "$data/$1/expected/optimizer.json" <<'P' || fail "$1: optimizer.json"
import json, sys
got, expected = (json.load(open(path)) for path in sys.argv[1:])
assert got["step"] == expected["step"], got
groups = {frozenset(g.get("params", [])): g["weight_decay"] for g in got["groups"]}
for group in expected.get("groups", []):
    assert groups[frozenset(group["params"])] == group["weight_decay"], (groups, group)
assert all(g["lr"] == expected["lr"] and g["betas"] == expected["betas"] for g in got["groups"]), got["groups"]
P
}
config_of() { hf="$data/$1/hf"; }
# damaged CASE: a copy of its save, $copy, whose files may be changed
damaged() {
    config_of "$1"
    rm -rf "$WORK/copy"
    cp -r "$data/$1/source" "$WORK/copy"
    copy="$WORK/copy"
}

for case in dcp_w2 fsdp2_w3 zero2_w2 zero2_padded_w3 zero3_w2; do
    config_of "$case"
    for ranks in 0 3; do
        states 0 "$ranks" "$data/$case/source" "$WORK/made"
        same_states "$case" "$WORK/made"
    done
    # Masters alone, and without a state what merge has always written.
    expect_code 0 "$SHARDWELD" reshape "$data/$case/source" "$WORK/master" --to hf --state master --hf_config "$hf" --no_fsync -q
    same_tensors "$WORK/master/optimizer/param.safetensors" "$data/$case/expected/param.safetensors" "$case master"
    expect_absent "$WORK/master/optimizer/exp_avg.safetensors"
    rm -rf "$WORK/master"
    # The model's directory is a source, too.
    hf='' states 0 3 "$WORK/made" "$WORK/again" --backend hf
    same_states "$case" "$WORK/again"
done

# DeepSpeed's universal checkpoints, too.
config_of zero3_w2
expect_code 0 "$SHARDWELD" reshape "$data/zero3_w2/source" "$WORK/universal" --to universal --state all --hf_config "$hf" --no_fsync -q
for ranks in 0 3; do
    states 0 "$ranks" "$WORK/universal" "$WORK/made"
    same_states zero3_w2 "$WORK/made"
done

# Their masters are proved by the module's weights, which can be taken alone: DeepSpeed's own tool exchanges parameters of a save like this one.
config_of zero2_padded_w3
rm -rf "$WORK/universal"
expect_code 0 "$SHARDWELD" reshape "$data/zero2_padded_w3/source" "$WORK/universal" --to universal --state all --hf_config "$hf" --no_fsync -q
layer=("$WORK"/universal/*/zero/model.layers.0.self_attn.{k,v}_proj.weight)
mv "${layer[0]}" "$WORK/k"
mv "${layer[1]}" "${layer[0]}"
mv "$WORK/k" "${layer[1]}"
states 6 3 "$WORK/universal" "$WORK/made"
expect_text "does not round to the stored weight"
expect_text "--weights model"
for ranks in 1 3; do
    expect_code 6 mpirun -n $ranks "$SHARDWELD" merge "$WORK/universal" "$WORK/none" --hf_config "$hf"
    expect_text "do not round to the module's weights: model.layers.0.self_attn.k_proj.weight, model.layers.0.self_attn.v_proj.weight"
done
expect_text "DeepSpeed's own tool exchanges parameters of runs with round_robin_gradients"
expect_absent "$WORK/none"
# The save itself has them where it says.
expect_code 0 "$SHARDWELD" merge "$data/zero2_padded_w3/source" "$WORK/masters" --hf_config "$hf" --no_fsync -v
expect_text "the fp32 masters of 21 parameters round to the module's weights"
expect_code 0 "$SHARDWELD" merge "$WORK/universal" "$WORK/weights" --weights model --hf_config "$hf" --no_fsync -q
same_tensors "$WORK/weights/model.safetensors" "$data/zero2_padded_w3/expected/model.safetensors" "the module's weights"
rm -rf "$WORK/weights"

# What moments have behind the masters' elements is padding, and zero.
damaged zero2_padded_w3
python3 - "$copy"/global_step2/*zero_pp_rank_2_*optim_states.pt <<'P' || fail "no padding is changed"
import struct, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    records = {name: archive.read(name) for name in archive.namelist() if not name.endswith("serialization_id")}
moment = next(name for name, content in records.items() if len(content) == 1996 * 4 and content.endswith(bytes(16)))
records[moment] = records[moment][:-4] + struct.pack("<f", 1.0)
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, content in records.items():
        archive.writestr(name, content)
P
states 4 0 "$copy" "$WORK/made" --check_crc off
expect_text "has 1996 elements, its fp32 weights 1992"

# Meshes with replicas: the files of replicas have states, too. A tied head has none under its second name.
for case in fsdp2_w3 dcp_w2; do
    config_of "$case"
    rm -rf "$WORK/mesh"
    expect_code 0 mpirun -n 2 "$SHARDWELD" reshape "$data/$case/source" "$WORK/mesh" --to fsdp:world=4,ddp=2 --state all --hf_config "$hf" --no_fsync -q
    states 0 3 "$WORK/mesh" "$WORK/made"
    for name in param exp_avg exp_avg_sq; do
        same_tensors "$WORK/made/optimizer/$name.safetensors" "$data/$case/expected/$name.safetensors" "$case mesh $name"
    done
done

# verl's files: one is missing, cut short, of another world; FSDP1.
damaged fsdp2_w3
rm "$copy/optim_world_size_3_rank_1.pt"
states 3 0 "$copy" "$WORK/made"
expect_text "the optimizer's file optim_world_size_3_rank_1.pt is missing"
expect_text "--state weights"
expect_code 0 "$SHARDWELD" reshape "$copy" "$WORK/weights" --to hf --hf_config "$hf" --no_fsync -q
same_tensors "$WORK/weights/model.safetensors" "$data/fsdp2_w3/expected/model.safetensors" "weights alone"
damaged fsdp2_w3
truncate -s 9000 "$copy/optim_world_size_3_rank_2.pt"
states 4 3 "$copy" "$WORK/made"
expect_text "optim_world_size_3_rank_2.pt"
damaged fsdp2_w3
for rank in 0 1 2; do
    mv "$copy/optim_world_size_3_rank_$rank.pt" "$copy/optim_world_size_4_rank_$rank.pt"
done
states 6 0 "$copy" "$WORK/made"
expect_text "there is optim_world_size_4_rank_0.pt"
damaged fsdp2_w3
echo '{"FSDP_version": 1, "world_size": 3}' >"$copy/fsdp_config.json"
states 5 0 "$copy" "$WORK/made"
expect_text "FSDP1's flat shards"
damaged fsdp2_w3
cp "$copy/optim_world_size_3_rank_0.pt" "$copy/optim_world_size_3_rank_1.pt"
states 6 0 "$copy" "$WORK/made"

# Parameters at two steps.
damaged fsdp2_w3
python3 - "$copy/optim_world_size_3_rank_0.pt" <<'P' || fail "no step is changed"
import struct, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as archive:
    records = {name: archive.read(name) for name in archive.namelist() if not name.endswith("serialization_id")}
step = next(name for name, content in records.items() if content == struct.pack("<f", 2.0))
records[step] = struct.pack("<f", 5.0)
with zipfile.ZipFile(sys.argv[1], "w") as archive:
    for name, content in records.items():
        archive.writestr(name, content)
P
states 6 0 "$copy" "$WORK/made" --check_crc off
expect_text "the optimizer's step is"

# What reshape puts beside a form is taken back, and may not contradict the save.
damaged fsdp2_w3
echo '{"weights": "bfloat16", "step": 2, "groups": [], "not_in_optimizer": ["model.norm.weight"]}' >"$copy/optimizer.json"
states 0 0 "$copy" "$WORK/made"
same_tensors "$WORK/made/optimizer/param.safetensors" "$data/fsdp2_w3/expected/param.safetensors" "masters beside bf16"
py "$WORK/made/model.safetensors" <<'P' || fail "the weights are not of the type that optimizer.json says"
import sys
import edit_safetensors as files
types = {name: tensor[0] for name, tensor in files.read(sys.argv[1]).items()}
assert types.pop("model.norm.weight") == "F32" and set(types.values()) == {"BF16"}, types
P
echo '{"step": 9}' >"$copy/optimizer.json"
states 6 0 "$copy" "$WORK/made"
expect_text "optimizer.json says that the optimizer is at step 9"

# DeepSpeed: a rank's file is missing; masters of other weights.
damaged zero2_w2
rm "$copy"/global_step2/*zero_pp_rank_1_*optim_states.pt
states 3 3 "$copy" "$WORK/made"
expect_text "zero_pp_rank_1_mp_rank_00_optim_states.pt"
expect_text "--state weights"
damaged zero2_w2
py "$copy"/global_step2/*zero_pp_rank_0_*optim_states.pt "$data/zero2_w2/expected/param.safetensors" <<'P' || fail "no master is changed"
import sys
import edit_safetensors as files
held = bytearray(open(sys.argv[1], "rb").read())
at = held.find(files.read(sys.argv[2])["model.embed_tokens.weight"][2][:32])
assert at > 0
held[at + 2] ^= 0x40
open(sys.argv[1], "wb").write(held)
P
states 6 0 "$copy" "$WORK/made" --check_crc off
expect_text "does not round to the stored weight"
expect_absent "$WORK/made"

# A model's directory: moments that are no fp32, and one alone, as Lion keeps it.
config_of zero3_w2
states 0 0 "$data/zero3_w2/source" "$WORK/model"
cp -r "$WORK/model" "$WORK/narrow"
py "$WORK/narrow/optimizer/exp_avg.safetensors" <<'P'
import sys
import edit_safetensors as files
tensors = files.read(sys.argv[1])
files.write(sys.argv[1], {name: ["BF16", shape, b"".join(data[at + 2:at + 4] for at in range(0, len(data), 4))] for name, (_, shape, data) in tensors.items()})
P
hf='' states 5 0 "$WORK/narrow" "$WORK/made" --backend hf
expect_text "is bfloat16, and only fp32 states are carried over"
rm "$WORK/model/optimizer/exp_avg_sq.safetensors"
hf='' states 5 0 "$WORK/model" "$WORK/made" --backend hf
expect_text "exp_avg without exp_avg_sq"
finish
