#!/usr/bin/env bash
# Names behind wrappers of training, in files of several formats: renamed copies of checkpoints merge to the same bytes, or are refused in
# words that name the prefix. What is no wrapper stays.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
torch="$TESTS/data/torch"
dcp="$torch/dcp_w2_bf16_qwen2"
ranks="$torch/fsdp2_w4_bf16_qwen2_tied"
peft="$torch/fsdp2_lora_w2_fp32_qwen2"

# copied CASE: a fresh copy of its source in $copy.
copied() {
    copy="$WORK/copy"
    rm -rf "$copy"
    cp -r "$1/source" "$copy"
}

# in_dcp NEW [PATTERN]: the names of the DCP save begin with NEW instead of that of the dictionary, "model."; those that PATTERN matches.
in_dcp() {
    copied "$dcp"
    python3 "$TESTS/support/damage.py" dcp_rename "$copy/.metadata" '^model\.' ''
    python3 "$TESTS/support/damage.py" dcp_rename "$copy/.metadata" "${2:-^(?!meta)}" "$1"
}

# in_ranks CASE PATTERN NEW: the names in the files of all ranks.
in_ranks() {
    local file
    copied "$1"
    for file in "$copy"/model_*.pt; do
        python3 "$TESTS/support/damage.py" rename_entries "$file" "$2" "$3"
    done
}

# merges_to EXPECTED RANKS [options]: the copy has those bytes.
merges_to() {
    local expected="$1" ranks="$2" launcher=()
    shift 2
    ((ranks == 0)) || launcher=(mpirun -n "$ranks")
    rm -rf "$WORK/model"
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --local_dir "$copy" --target_dir "$WORK/model" --no_fsync -v "$@" || return
    python3 "$TESTS/support/compare_safetensors.py" "$WORK/model" "$expected" >/dev/null 2>"$WORK/compare" || fail "$copy: $(<"$WORK/compare")"
}

# refused CODE [options]: with the texts that expect_text asks for.
refused() {
    local code="$1"
    shift
    expect_code "$code" "$SHARDWELD" merge --local_dir "$copy" --target_dir "$WORK/none" "$@"
    expect_absent "$WORK/none"
}

# names_are REGEX FILE: every tensor's name matches.
names_are() {
    python3 - "$1" "$2" <<'P' || fail "names of $2"
import json, re, struct, sys
with open(sys.argv[2], "rb") as file:
    header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
header.pop("__metadata__", None)
others = [name for name in header if not re.match(sys.argv[1], name)]
sys.exit(f"{others[:3]}" if others or not header else 0)
P
}

# DCP: wrappers, roots of state dicts, and attributes of modules around the model, of one part and of several.
for new in module. _orig_mod.module. model_state.model. state_dict._forward_module.net. model.module. policy.actor.; do
    in_dcp "$new"
    merges_to "$dcp/expected" 0 --hf_config "$dcp/hf"
done
expect_text "all names begin with policy.actor., the name of the model in the module around it, which is left out"
in_dcp policy.actor.
merges_to "$dcp/expected" 3 --hf_config "$dcp/hf" --prefix policy.actor
# --names module guesses nothing.
expect_code 0 "$SHARDWELD" merge "$copy" "$WORK/stored" --hf_config "$dcp/hf" --names module --no_fsync
names_are '^policy\.actor\.' "$WORK/stored/model.safetensors"
# Nor does a family that nobody knows: the part of a model that was saved alone keeps its name.
in_dcp text_model.
mkdir "$WORK/unknown"
sed 's/"qwen2"/"kosmos-9"/; s/Qwen2For/Kosmos9For/' "$dcp/hf/config.json" >"$WORK/unknown/config.json"
expect_code 0 "$SHARDWELD" merge "$copy" "$WORK/part" --hf_config "$WORK/unknown" --no_fsync
names_are '^text_model\.' "$WORK/part/model.safetensors"
# Beside another module it is for the user to say.
in_dcp policy. '^(?!meta|model.norm)'
refused 6 --hf_config "$dcp/hf"
expect_text "it holds policy.model.embed_tokens.weight"
expect_text "means model.embed_tokens.weight"
expect_text "--prefix policy takes what lies below it and leaves the rest aside"

# Two names that become one.
in_dcp model.layers.0._orig_mod.input_layernorm '^model.norm'
refused 6 --hf_config "$dcp/hf"
expect_text "keys model.layers.0._orig_mod.input_layernorm.weight and model.layers.0.input_layernorm.weight both name tensor model.layers.0.input_layernorm.weight"

# Rank files.
in_ranks "$ranks" ^ net._orig_mod.
merges_to "$ranks/expected" 2
in_ranks "$ranks" ^ thinker.net.
merges_to "$ranks/expected" 2 --prefix thinker.net

# PEFT's model behind a module's attribute, and wrapped again; the adapter's names are PEFT's.
for new in model_state.model. module. base_model.model. net.model.; do
    in_ranks "$peft" ^ "$new"
    merges_to "$peft/expected/base" 0
    names_are '^base_model\.model\.model\.layers\.' "$WORK/model/lora_adapter/adapter_model.safetensors"
done
merges_to "$peft/expected/merged" 2 --lora fold
in_ranks "$torch/fsdp2_loraonly_w2_fp32_qwen2" ^ module.net.
expect_code 0 "$SHARDWELD" merge "$copy" "$WORK/alone" --lora_alpha 8 --no_fsync
names_are '^base_model\.model\.model\.layers\.' "$WORK/alone/lora_adapter/adapter_model.safetensors"
in_ranks "$peft" '^(?!.*norm)' net.
refused 6
expect_text "has net. in front of PEFT's base_model.model."
expect_text "--prefix net"

# HuggingFace files under wrappers' names are no finished model: what they are, and what to type.
files="$WORK/files"
# hf_files PATTERN NEW
hf_files() {
    rm -rf "$files"
    cp -r "$WORK/whole" "$files"
    python3 "$TESTS/support/edit_safetensors.py" "$files/model.safetensors" rename "$1" "$2"
    copy="$files"
}
copied "$dcp"
expect_code 0 "$SHARDWELD" merge "$copy" "$WORK/whole" --hf_config "$dcp/hf" --no_fsync
rm -f "$WORK/whole/shardweld_report.json"
copy="$WORK/whole"
refused 3
expect_text "is a HuggingFace model already"
for new in _orig_mod. module.; do
    hf_files ^ "$new"
    refused 2
    expect_text "under names of a training wrapper: ${new}model.embed_tokens.weight instead of model.embed_tokens.weight"
    expect_text "--backend hf writes"
    merges_to "$dcp/expected" 2 --backend hf
done
hf_files ^ base_model.model.
refused 2
expect_text "a LoRA adapter is in them: base_model.model."
expect_text "--backend hf --lora fold"
merges_to "$dcp/expected" 0 --backend hf
hf_files ^ critic.
merges_to "$dcp/expected" 0 --backend hf --prefix critic
mkdir -p "$WORK/step/actor"
hf_files ^ module.
mv "$files" "$WORK/step/actor/huggingface"
expect_code 2 "$SHARDWELD" inspect "$WORK/step/actor"
expect_text "under names of a training wrapper"

# A language model's names under the config of a model that also sees: the family's where the tower is there, else refused.
vision="$WORK/vision"
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/qwen3_vl_moe.json" "$vision"
rm -rf "$WORK/whole"
cp -r "$vision" "$WORK/whole"
hf_files '^model\.language_model\.' model.
merges_to "$vision" 2 --backend hf
expect_text 'names that begin with model. are written as the family'
python3 "$TESTS/support/edit_safetensors.py" "$files/model.safetensors" drop_all visual
refused 6 --backend hf
expect_text "it holds model.embed_tokens.weight"
expect_text "means model.language_model.embed_tokens.weight"
expect_text "pass the config.json of the language model alone with --hf_config"

# Megatron's names, too, have parts.
megatron="$TESTS/data/megatron/qwen2-tp2-pp2-torchdist-bf16"
[[ -d "$megatron" ]] || megatron="$(ls -d "$TESTS"/data/megatron/*llama*torchdist* | head -1)"
copy="$megatron/source"
refused 3 --hf_config "$megatron/hf" --prefix encoder
expect_text "give one of those that the checkpoint holds: decoder (8 tensors), embedding (1 tensors)"
finish
