#!/usr/bin/env bash
# reshape --state: what values of states cannot be is refused, what is odd is a warning, from every reader and to every form; and verify finds a
# byte that was changed in what is written, in tensors and around them.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data/optimizer"
hf="$data/dcp_w2/hf"

# reshape CODE RANKS SOURCE FORM [options]: into $WORK/made
reshape() {
    local code="$1" ranks="$2" source="$3" form="$4" launcher=()
    shift 4
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    rm -rf "$WORK/made"
    expect_code "$code" "${launcher[@]}" "$SHARDWELD" reshape "$source" "$WORK/made" --to "$form" --state all --no_fsync "$@"
}
reshape 0 0 "$data/dcp_w2/source" hf --hf_config "$hf" --report none
mv "$WORK/made" "$WORK/good"
# changed CODE: a copy of the good one, $WORK/bad, in which Python's CODE has `states[name][parameter]`, an array of floats
changed() {
    rm -rf "$WORK/bad"
    cp -r "$WORK/good" "$WORK/bad"
    py "$WORK/bad/optimizer" "$1" <<'P' || fail "cannot change: $1"
import array, sys
import edit_safetensors as files
folder, code = sys.argv[1:]
stored = {name: files.read(f"{folder}/{name}.safetensors") for name in ("param", "exp_avg", "exp_avg_sq")}
states = {name: {key: array.array("f", bytes(tensor[2])) for key, tensor in tensors.items()} for name, tensors in stored.items()}
exec(code)
for name, tensors in stored.items():
    files.write(f"{folder}/{name}.safetensors", {key: [*tensor[:2], states[name][key].tobytes()] for key, tensor in tensors.items()})
P
}

# Numbers that are texts ("10" before "2"), as torch's dcp_to_torch_save leaves them, name the same parameters.
# numbered_by_texts SAVE FILES ROOT: of every file's states, which Python's ROOT finds
numbered_by_texts() {
    rm -rf "$WORK/bad" "$WORK/plain"
    cp -r "$TESTS/data/$1/source" "$WORK/bad"
    reshape 0 0 "$WORK/bad" hf --hf_config "$TESTS/data/$1/hf" --report none
    mv "$WORK/made" "$WORK/plain"
    py "$3" "$WORK"/bad/$2 <<'P' || fail "cannot change $2"
import sys
import damage
def edit(root):
    holder = eval(sys.argv[1])
    holder["state"] = dict(sorted((str(number), state) for number, state in reversed(holder["state"].items())))
for file in sys.argv[2:]:
    damage.change(file, edit)
P
    reshape 0 0 "$WORK/bad" hf --hf_config "$TESTS/data/$1/hf" --check_crc off --report none
    same_files "$WORK/made" "$WORK/plain" "$1 with texts for numbers"
}
numbered_by_texts optimizer/fsdp2_w3 'optim_world_size_3_rank_*.pt' root
numbered_by_texts optimizer/zero2_w2 '*/*optim_states.pt' 'root["optimizer_state_dict"]["base_optimizer_state"]'
numbered_by_texts megatron_states/qwen2-tied-tp2-pp2-numbered-legacy 'iter_0000003/*/model_optim_rng.pt' 'root["optimizer"]["optimizer"]'

# changed_files EDIT FILE...: Python's EDIT changes `root` of each file, or names what becomes an object in a .metadata
changed_files() {
    py "$@" <<'P' || fail "cannot change ${*:2}"
import sys
import damage
for file in sys.argv[2:]:
    damage.dcp_object(file, sys.argv[1]) if file.endswith(".metadata") else damage.change(file, lambda root: exec(sys.argv[1]))
P
}

# What a save has lost is given by an optimizer.json beside its files, and the same states come of it. ZeRO's elastic saves never have groups.
# given DIRECTORY PLACE FILES EDIT [named]: of a save, and its config in hf; Python's EDIT takes settings out of `root`; groups name their members if asked
given() {
    rm -rf "$WORK/bad" "$WORK/plain"
    cp -r "$1/source" "$WORK/bad"
    reshape 0 0 "$WORK/bad" hf --hf_config "$1/hf" --report none
    mv "$WORK/made" "$WORK/plain"
    changed_files "$4" "$WORK"/bad/$2/$3
    reshape 3 0 "$WORK/bad" hf --hf_config "$1/hf" --check_crc off
    python3 - "$WORK/plain/optimizer/optimizer.json" "$WORK/bad/$2/optimizer.json" "${5:-}" <<'P' || fail "nothing is given"
import json, sys
told = json.load(open(sys.argv[1]))
for group in told["groups"]:
    if not sys.argv[3]:
        group.pop("params", None)
json.dump(told, open(sys.argv[2], "w"))
P
    reshape 0 0 "$WORK/bad" hf --hf_config "$1/hf" --check_crc off --report none
    same_files "$WORK/made" "$WORK/plain" "$1 with what is given"
    sed -i 's/"step": [0-9.]*/"step": 99/' "$WORK/bad/$2/optimizer.json"
}
given "$data/zero2_w2" global_step2 '*optim_states.pt' 'one = root["optimizer_state_dict"]; one["base_optimizer_state"] = list(one["base_optimizer_state"]["state"].values())' named
reshape 6 0 "$WORK/bad" hf --hf_config "$data/zero2_w2/hf" --check_crc off
rm "$WORK/bad/global_step2/optimizer.json"
reshape 3 0 "$WORK/bad" hf --hf_config "$data/zero2_w2/hf" --check_crc off
expect_text "as with DeepSpeed's elastic_checkpoint"
expect_text "or an optimizer.json beside them that does"
given "$TESTS/data/loaded_states/llama-tp2-pp2-dp2" iter_0000003 common.pt 'del root["optimizer"]'
given "$TESTS/data/megatron_states/qwen3moe-tp2-ep2-legacy" iter_0000003 '*/model_optim_rng.pt' 'del root["optimizer"]'
# A universal save's file of settings without groups, and the save without that file.
mkdir "$WORK/universal"
cp -r "$data/zero2_w2/hf" "$WORK/universal"
reshape 0 0 "$data/zero2_w2/source" universal --hf_config "$data/zero2_w2/hf" --report none
mv "$WORK/made" "$WORK/universal/source"
given "$WORK/universal" global_step2_universal zero/optimizer_state.pt '[one.pop("param_groups") for one in (root, root["optimizer_state_dict"])]' named
reshape 6 3 "$WORK/bad" hf --hf_config "$data/zero2_w2/hf" --check_crc off
expect_text "optimizer.json says that the optimizer is at step 99, its states are at 2"
cp "$WORK/plain/optimizer/optimizer.json" "$WORK/bad/global_step2_universal"
rm "$WORK/bad/global_step2_universal/zero/optimizer_state.pt"
for form in hf dcp:world=2 universal; do
    reshape 0 0 "$WORK/bad" $form --hf_config "$data/zero2_w2/hf" --report none
    rm -rf "$WORK/given"
    mv "$WORK/made" "$WORK/given"
    reshape 0 3 "$WORK/given" hf --hf_config "$data/zero2_w2/hf" --report none
    same_files "$WORK/made/optimizer" "$WORK/plain/optimizer" "groups given to a universal save, by way of $form"
done
# Groups with other members than the save's are another run's.
# moved DIRECTORY PLACE CONFIG
moved() {
    rm -rf "$WORK/bad"
    cp -r "$1" "$WORK/bad"
    reshape 0 0 "$WORK/bad" hf --hf_config "$3" --report none
    python3 - "$WORK/made/optimizer/optimizer.json" "$WORK/bad/$2/optimizer.json" <<'P' || fail "no member moves"
import json, sys
told = json.load(open(sys.argv[1]))
told["groups"][0]["params"][0] = "no.such.weight" if len(told["groups"]) == 1 else told["groups"][1]["params"].pop()
json.dump(told, open(sys.argv[2], "w"))
P
    reshape 6 0 "$WORK/bad" hf --hf_config "$3"
    expect_text "the groups in optimizer.json are not of the save's"
    expect_absent "$WORK/made"
}
moved "$data/zero2_w2/source" global_step2 "$data/zero2_w2/hf"
moved "$WORK/universal/source" global_step2_universal "$data/zero2_w2/hf"
moved "$data/fsdp2_w3/source" . "$data/fsdp2_w3/hf"
moved "$data/dcp_w2/source" . "$data/dcp_w2/hf"

# A state that is there but is no tensor is not missing: refused by every reader.
# no_tensor CODE SAVE FILES EDIT
no_tensor() {
    rm -rf "$WORK/bad"
    cp -r "$TESTS/data/$2/source" "$WORK/bad"
    changed_files "$4" "$WORK"/bad/$3
    reshape "$1" 0 "$WORK/bad" hf --hf_config "$TESTS/data/$2/hf" --check_crc off
    expect_absent "$WORK/made"
}
for changed in "exp_avg (one['exp_avg'],)" "exp_avg_sq None"; do
    read -r name value <<<"$changed"
    edit="one = root['state'][1]; one['$name'] = $value"
    no_tensor 5 optimizer/fsdp2_w3 'optim_world_size_3_rank_*.pt' "$edit"
    expect_text "where a tensor is expected"
    no_tensor 5 megatron_states/qwen2-tied-tp2-pp2-numbered-legacy 'iter_0000003/*/model_optim_rng.pt' "root = root['optimizer']['optimizer']; $edit"
    expect_text "where a tensor is expected"
    no_tensor 4 optimizer/zero2_w2 '*/*optim_states.pt' "root = root['optimizer_state_dict']['base_optimizer_state']; $edit"
    expect_text "$name of flat group 1 is no flat tensor of floats"
done
no_tensor 4 optimizer/zero2_w2 '*/*optim_states.pt' "del root['optimizer_state_dict']['base_optimizer_state']['state'][1]['exp_avg_sq']"
expect_text "holds exp_avg_sq of some flat groups only"
no_tensor 3 optimizer/zero2_w2 '*/*zero_pp_rank_1_*optim_states.pt' "[(one.pop('exp_avg'), one.pop('exp_avg_sq')) for one in root['optimizer_state_dict']['base_optimizer_state']['state'].values()]"
expect_text "holds no exp_avg of the optimizer, as other files of the save do"
no_tensor 5 optimizer/dcp_w2 .metadata optim.state.model.norm.weight.exp_avg
no_tensor 5 loaded_states/llama-tp2-pp2-dp2 iter_0000003/.metadata optimizer.state.exp_avg_sq.decoder.final_layernorm.weight
expect_text "where a tensor is expected"
no_tensor 5 megatron_states/qwen3moe-tp2-ep2-legacy 'iter_0000003/*/distrib_optim.pt' "(one,) = root[0][0].values(); one['exp_avg'] = (one['exp_avg'],)"
no_tensor 5 optimizer/fsdp2_w3 'optim_world_size_3_rank_*.pt' "root['state'][1] = tuple(root['state'][1].values())"

# Moments that have changed places, to every form and at several ranks.
changed 'states["exp_avg"], states["exp_avg_sq"] = states["exp_avg_sq"], states["exp_avg"]'
ranks=0
for form in hf dcp:world=2 fsdp:world=2 universal torch_dist; do
    reshape 6 $ranks "$WORK/bad" $form
    expect_text "exp_avg_sq of "
    expect_text "below zero, and a mean of squares has none"
    expect_text "--state weights"
    expect_absent "$WORK/made"
    ranks=3
done
rm -rf "$WORK/made"
expect_code 0 "$SHARDWELD" reshape "$WORK/bad" "$WORK/made" --to dcp:world=2 --state master --no_fsync
# The same in the files of trainers.
rm -rf "$WORK/bad"
cp -r "$data/dcp_w2/source" "$WORK/bad"
metadata="$(find "$WORK/bad" -name .metadata)"
for names in 'exp_avg$:moment' 'exp_avg_sq$:exp_avg' 'moment$:exp_avg_sq'; do
    python3 "$TESTS/support/damage.py" dcp_rename "$metadata" "${names%:*}" "${names#*:}" || fail "cannot rename ${names%:*}"
done
reshape 6 3 "$WORK/bad" hf --hf_config "$hf"
expect_text "below zero, and a mean of squares has none"
rm -rf "$WORK/bad"
cp -r "$data/fsdp2_w3/source" "$WORK/bad"
changed_files 'for one in root["state"].values(): one["exp_avg"], one["exp_avg_sq"] = one["exp_avg_sq"], one["exp_avg"]' "$WORK"/bad/optim_world_size_3_rank_*.pt
reshape 6 0 "$WORK/bad" fsdp:world=2 --hf_config "$data/fsdp2_w3/hf"
expect_text "exp_avg_sq of model."

# A moment that is zero for every parameter of a run; for one of them it may be.
for moment in exp_avg exp_avg_sq; do
    changed "for one in states['$moment'].values(): one[:] = array.array('f', bytes(4 * len(one)))"
    reshape 6 3 "$WORK/bad" torch_dist
    expect_text "$moment is zero for all"
    reshape 6 0 "$WORK/bad" fsdp:world=2
done
sed -i 's/"step": [0-9.]*/"step": 0/' "$WORK/bad/optimizer/optimizer.json"
reshape 0 0 "$WORK/bad" dcp:world=2
! grep -q "exp_avg" "$WORK/err" || fail "moments at step 0 are told of: $(cat "$WORK/err")"
changed 'one = states["exp_avg_sq"]["model.layers.0.mlp.up_proj.weight"]; one[:] = array.array("f", bytes(4 * len(one)))'
ranks=3
for form in dcp:world=2 hf fsdp:world=3 universal; do
    reshape 0 $ranks "$WORK/bad" $form
    expect_text "exp_avg_sq is zero for 1 of 12 parameters beside step 2"
    grep -q '"moments_zero"' "$WORK/made/shardweld_report.json" || fail "$form: no moments_zero in the report"
    ranks=0
done

# A directory's name and the trainer's own file state steps, too: one that is another than the optimizer's is named.
# warned_of_step SOURCE HF OPTIMIZER STATED
warned_of_step() {
    reshape 0 0 "$1" dcp:world=2 --hf_config "$2"
    expect_text "the optimizer is at step $3, but $4"
    grep -q '"optimizer_step"' "$WORK/made/shardweld_report.json" || fail "$1: no optimizer_step in the report"
}
for saved in "$data/zero2_w2/source/global_step2" "$WORK/universal/source/global_step2_universal"; do
    renamed="$WORK/tree/$(basename "${saved/step2/step9}")"
    rm -rf "$WORK/tree"
    mkdir "$WORK/tree"
    cp -r "$saved" "$renamed"
    warned_of_step "$renamed" "$data/zero2_w2/hf" 2 "the "
    grep -qE "the iteration is 9|the step in the directory's name is 9" "$WORK/err" || fail "$renamed: the name's step is not told"
done
rm -rf "$WORK/tree"
cp -r "$WORK/good" "$WORK/tree"
printf '{"global_step": 2, "log_history": [{"step": 1}]}' >"$WORK/tree/trainer_state.json"
reshape 0 0 "$WORK/tree" dcp:world=2
! grep -q optimizer_step "$WORK/made/shardweld_report.json" || fail "equal steps are told of"
printf '{"global_step": 7, "log_history": [{"step": 2, "loss": NaN}]}' >"$WORK/tree/trainer_state.json"
warned_of_step "$WORK/tree" "$hf" 2 "the step in trainer_state.json is 7"
for stated in '{"global_step": '{-1,2.5,'"2"',true,'[2]','2, }'}'}' '{"global_step": 2' '[]' '' "{\"global_step\": 1$(printf '%01200d' 2)}"; do
    printf '%s' "$stated" >"$WORK/tree/trainer_state.json"
    reshape 4 0 "$WORK/tree" dcp:world=2
    expect_text "trainer_state.json"
done
expect_code 0 "$SHARDWELD" merge "$WORK/tree" "$WORK/weights" --dtype bf16 -q  # which reads no states
for stated in '{"global_step": null}' '{"epoch": 1}'; do
    printf '%s' "$stated" >"$WORK/tree/trainer_state.json"
    reshape 0 0 "$WORK/tree" dcp:world=2
done

# What is no number is named with its state; one moment in the place of both.
changed 'states["exp_avg"]["model.norm.weight"][1] = float("nan"); states["exp_avg_sq"]["model.layers.0.mlp.up_proj.weight"][3] = float("inf")'
for form in hf fsdp:world=2 universal torch_dist; do
    reshape 0 $ranks "$WORK/bad" $form
    expect_text "holds NaNs: exp_avg of "
    expect_text "holds infinities: exp_avg_sq of "
done
changed 'states["exp_avg"] = states["exp_avg_sq"]'
reshape 0 3 "$WORK/bad" dcp:world=2
expect_text "no element of exp_avg is below zero"

# An optimizer.json that is none: time and memory follow its size.
huge() {
    rm -rf "$WORK/bad" "$WORK/made"
    cp -r "$WORK/good" "$WORK/bad"
    python3 -c "$1" "$WORK/bad/optimizer/optimizer.json" || fail "cannot write it"
    expect_code 4 timeout 20 "$SHARDWELD" reshape "$WORK/bad" "$WORK/made" --to dcp:world=1 --state all --no_fsync
    expect_text "${2:-some dozens of settings}"
}
huge 'import sys; open(sys.argv[1], "w").write("{\"step\": 1" + "0" * 60000000 + ", \"groups\": []}")' "it is no JSON object"
huge 'import json, sys; j = json.load(open(sys.argv[1])); j["groups"][0].update({"k%d" % i: 0 for i in range(100000)}); json.dump(j, open(sys.argv[1], "w"))'
huge 'import sys; open(sys.argv[1], "w").write("{\"step\": 2, \"groups\": [" + "[],[]," * 5000000 + "{}]}")'

# verify reads the states, and what lies around tensors: one byte is changed in the middle of each file.
# flipped FILE OFFSET CODE
flipped() {
    cp "$1" "$WORK/kept"
    python3 -c 'import sys; f = open(sys.argv[1], "r+b"); at = int(sys.argv[2]); f.seek(at, 0 if at >= 0 else 2); b = f.read(1); f.seek(-1, 1); f.write(bytes([b[0] ^ 1]))' "$1" "$2"
    "$SHARDWELD" verify "$WORK/made" >"$WORK/verified" 2>&1
    local code=$?
    [[ $code == 13 || $code == 4 ]] || fail "$1 with a changed byte at $2: verify ends with $code"
    cp "$WORK/kept" "$1"
}
for form in hf dcp:world=2 fsdp:world=2 universal torch_dist; do
    reshape 0 0 "$WORK/good" $form
    expect_code 0 mpirun -n 2 "$SHARDWELD" verify "$WORK/made"
    expect_code 0 "$SHARDWELD" reshape "$WORK/good" "$WORK/made" --to $form --state all --no_fsync --if_complete verify
    expect_text "every tensor is what the report says"
    for file in $(cd "$WORK/made" && find . -type f ! -name shardweld_report.json ! -path './huggingface/*' ! -name 'config.json' ! -name '*tokenizer*' ! -name '*.md' ! -name 'generation*' | sort | awk '/\/optimizer|metadata|common|rank_0|layernorm.weight.exp_avg_sq/' | head -5); do
        flipped "$WORK/made/$file" -1
        flipped "$WORK/made/$file" "$(($(stat -c %s "$WORK/made/$file") / 2))"
    done
    expect_code 0 "$SHARDWELD" verify "$WORK/made"
done

# What is there of an optimizer that is not read is named: Megatron's fsdp_dtensor, accelerate's optimizer_0, Muon's file beside the steps.
rm -rf "$WORK/bad"
cp -r "$TESTS/data/loaded_states/llama-tp2-pp2-dp2/source" "$WORK/bad"
python3 "$TESTS/support/damage.py" dcp_rename "$WORK/bad/iter_0000003/.metadata" 'optimizer\.state\.(exp_avg_sq|exp_avg|param)\.(.+)' 'optimizer.state.module.\2.\1' ||
    fail "cannot rename states"
reshape 5 0 "$WORK/bad" hf --hf_config "$TESTS/data/loaded_states/llama-tp2-pp2-dp2/hf"
expect_text "names of Megatron's fsdp_dtensor (optimizer.state.module."
trainer="$TESTS/data/world/trainer_transformers"
reshape 3 0 "$trainer/source/checkpoint-1" dcp:world=2 --hf_config "$trainer/hf"
expect_text "a file or directory of its own is not read: optimizer_0"
muon="$TESTS/data/megatron/llama-tp4-legacy-bf16"
rm -rf "$WORK/bad"
cp -r "$muon/source" "$WORK/bad"
cp "$TESTS/data/megatron_states/qwen3moe-tp2-ep2-legacy/source/iter_0000003/mp_rank_00_000/distrib_optim.pt" "$WORK/bad/layer_wise_optimizer_0.pt"
reshape 3 0 "$WORK/bad" torch_dist --hf_config "$muon/hf"
expect_text "layer_wise_optimizer_0.pt"
expect_code 0 "$SHARDWELD" merge "$WORK/bad" "$WORK/made" --hf_config "$muon/hf" --no_fsync
! grep -q "could hold weights" "$WORK/err" || fail "Muon's file is suspected: $(grep "could hold" "$WORK/err")"

# Buffers have no states, and frozen weights of which the groups say so: no warning, and --strict does not fail. Of others it does.
rm -rf "$WORK/moe" "$WORK/bad"
moe="$TESTS/data/megatron_more/deepseekv3-tp2-local-legacy"
expect_code 0 "$SHARDWELD" merge "$moe/source" "$WORK/moe" --hf_config "$moe/hf" --no_fsync --report none -q
mkdir "$WORK/moe/optimizer"
echo "{}" | tee "$WORK/moe/tokenizer.json" >"$WORK/moe/tokenizer_config.json"
# lack PATTERN: states of all weights but these, which no group names
lack() {
    py "$WORK/moe" "$1" "${2:-}" <<'P' || fail "no states are made"
import json, sys
import edit_safetensors as files
weights = files.read(sys.argv[1] + "/model.safetensors")
files.edit(weights, "widen", [])
files.edit(weights, "drop_all", [sys.argv[2]])
for state in ("param", "exp_avg", "exp_avg_sq"):
    if state == "exp_avg_sq":
        for tensor in weights.values():
            tensor[2] = bytearray(tensor[2])
            tensor[2][3::4] = bytes(byte & 0x7f for byte in tensor[2][3::4])
    files.write(f"{sys.argv[1]}/optimizer/{state}.safetensors", weights)
group = {"lr": 0.1, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0}
if sys.argv[3]:
    group["params"] = list(weights)
json.dump({"step": 2, "groups": [group]}, open(sys.argv[1] + "/optimizer/optimizer.json", "w"))
P
}
lack e_score_correction_bias
reshape 0 0 "$WORK/moe" dcp:world=2 --strict
lack 'e_score_correction_bias|layers.0.*layernorm' named
reshape 0 0 "$WORK/moe" universal --strict
lack 'e_score_correction_bias|model.norm'
reshape 14 0 "$WORK/moe" hf --strict
expect_text "1 weight without states of the optimizer, which frozen ones have none of: model.norm.weight"

# Copies may hold NaNs of other bits, as torch casts them, and no other values.
llama="$TESTS/data/megatron/llama-tp4-legacy-bf16"
rm -rf "$WORK/bad"
cp -r "$llama/source" "$WORK/bad"
# norm HEX RANK..: the first element of the last norm's copy in the files of these ranks
norm() {
    py "$WORK/bad/iter_0000010" "$@" <<'P' || fail "no norm is changed"
import sys
import add_factors
for rank in sys.argv[3:]:
    save = add_factors.Save(f"{sys.argv[1]}/mp_rank_0{rank}/model_optim_rng.pt")
    norm = save.tensor("decoder.final_layernorm.weight")
    at = save.record(norm.args[0].fields[2])
    data = bytearray(save.records[at])
    data[2 * norm.args[1]:2 * norm.args[1] + 2] = bytes.fromhex(sys.argv[2])
    save.records[at] = bytes(data)
    save.write()
P
}
norm c07f 0 2
norm ffff 1 3
for ranks in 1 3; do
    rm -rf "$WORK/made"
    expect_code 0 mpirun -n $ranks "$SHARDWELD" merge "$WORK/bad" "$WORK/made" --hf_config "$llama/hf" --replicas verify --no_fsync
    expect_text "holds NaNs"
done
norm 803f 3
expect_code 6 "$SHARDWELD" merge "$WORK/bad" "$WORK/none" --hf_config "$llama/hf" --replicas verify --no_fsync
expect_absent "$WORK/none"
finish
