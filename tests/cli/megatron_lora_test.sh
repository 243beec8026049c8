#!/usr/bin/env bash
# LoRA adapters that Megatron-Bridge keeps beside Megatron's weights, or alone: split into what PEFT loads, folded, dropped. Expected is
# what Megatron-Bridge exports, and W + alpha/r B A in fp32.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
data="$TESTS/data/megatron_lora"

# near GOT EXPECTED: fp32 models that differ by 1e-6 of the largest element at most: sums of four products, in any order.
near() {
    python3 - "$1/model.safetensors" "$2/model.safetensors" 2>"$WORK/compare" <<'P' || fail "$1: $(tail -1 "$WORK/compare")"
import array, json, struct, sys

def read(path):
    blob = open(path, "rb").read()
    end = 8 + struct.unpack("<Q", blob[:8])[0]
    return {k: array.array("f", blob[end + v["data_offsets"][0]:end + v["data_offsets"][1]])
            for k, v in json.loads(blob[8:end]).items() if k != "__metadata__" and v["dtype"] == "F32"}

got, expected = map(read, sys.argv[1:])
assert expected and got.keys() == expected.keys(), "other tensors"
for name, values in expected.items():
    largest = max(map(abs, values))
    assert len(values) == len(got[name]) and all(abs(a - b) <= 1e-6 * largest for a, b in zip(values, got[name])), name
P
}

# lora CODE RANKS CASE [OPTIONS]
lora() {
    local launcher=()
    (($2 == 0)) || launcher=(mpirun -n "$2")
    rm -rf "$WORK/model"
    expect_code "$1" "${launcher[@]}" "$SHARDWELD" merge --local_dir "$data/$3/source" --target_dir "$WORK/model" "${@:4}"
}

for name in llama-tp2-torchdist-fp32 canonical-llama-tp2-torchdist-fp32 qwen3-tp2-pp2-legacy-fp32; do
    config=(--hf_config "$data/$name/hf")
    lora 0 0 "$name" "${config[@]}"
    same_tensors "$WORK/model" "$data/$name/expected/base"
    same_tensors "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
    expect_text "WITHOUT the LoRA adapter"
    python3 - "$WORK/model/lora_adapter/adapter_config.json" "$data/$name/expected/lora_adapter/adapter_config.json" <<'P' || fail "$name: another adapter_config.json"
import json, sys
got, expected = (json.load(open(path)) for path in sys.argv[1:])
for field in ("peft_type", "r", "lora_alpha", "task_type", "use_dora", "use_rslora", "bias", "fan_in_fan_out"):
    assert got[field] == expected[field], (field, got[field])
assert sorted(got["target_modules"]) == sorted(expected["target_modules"]), got["target_modules"]
P
    sum="$(sum_of "$WORK/model")"
    lora 0 3 "$name" "${config[@]}" --strategy collective -q
    [[ "$(sum_of "$WORK/model")" == "$sum" ]] || fail "$name: other bytes with 3 ranks"
    lora 0 2 "$name" "${config[@]}" --lora fold -q
    near "$WORK/model" "$data/$name/expected/merged_fp32"
done
lora 0 0 "$name" "${config[@]}" --lora drop -q
same_tensors "$WORK/model" "$data/$name/expected/base"

# Adapters alone: an adapter, or with the base that they were trained on a model.
name=only-llama-tp2-torchdist-bf16
lora 0 2 "$name" --hf_config "$data/$name/hf" -q
same_tensors "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
expect_absent "$WORK/model/model.safetensors"
lora 0 2 "$name" --base "$data/$name/hf" -q
same_tensors "$WORK/model/model.safetensors" "$data/$name/hf/model.safetensors"
same_tensors "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
lora 0 3 "$name" --base "$data/$name/hf" --lora fold --dtype fp32 -q
near "$WORK/model" "$data/$name/expected/merged_fp32"
lora 2 0 "$name" --hf_config "$data/$name/hf" --lora fold -q

# ms-swift's names, with alpha in args.json above the iteration.
damage() { python3 "$TESTS/support/damage.py" "$@" || fail "cannot change: $*"; }
as_swift() { # CASE: in $WORK/swift
    rm -rf "$WORK/swift"
    cp -r "$data/$1/source" "$WORK/swift"
    chmod -R u+w "$WORK/swift"
    local yaml="$WORK/swift/iter_0000010/run_config.yaml"
    rank="$(sed -n 's/^  dim: //p' "$yaml")"
    alpha="$(sed -n 's/^  alpha: //p' "$yaml")"
    rm "$yaml"
    for file in "$WORK"/swift/iter_0000010/.metadata "$WORK"/swift/iter_0000010/mp_rank_*/model_optim_rng.pt; do
        [[ ! -e "$file" ]] || {
            damage rename_text "$file" .adapter.linear_in.weight .lora_A.default.weight
            damage rename_text "$file" .adapter.linear_out.weight .lora_B.default.weight
        }
    done
    printf '{"tuner_type": "lora", "lora_rank": %s, "lora_alpha": %s, "use_rslora": false}' "$rank" "$alpha" >"$WORK/swift/args.json"
}
swift() { # CODE CASE OPTIONS
    rm -rf "$WORK/model"
    expect_code "$1" "$SHARDWELD" merge --local_dir "$WORK/swift" --target_dir "$WORK/model" --hf_config "$data/$2/hf" "${@:3}"
}
for name in llama-tp2-torchdist-fp32 qwen3-tp2-pp2-legacy-fp32 only-llama-tp2-torchdist-bf16; do
    as_swift "$name"
    swift 0 "$name"
    same_tensors "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter"
    [[ "$name" == only-* ]] || same_tensors "$WORK/model" "$data/$name/expected/base"
done
grep -qF "use_rslora" "$WORK/err" && fail "says that no file speaks of use_rslora"
sed -i "s/\"lora_rank\": $rank/\"lora_rank\": 3/" "$WORK/swift/args.json"
swift 6 "$name"
expect_text "the file is another adapter's"

# Its B of gate and up lies by ranks where there are as many pieces as ranks.
name=llama-tp2-torchdist-fp32
as_swift "$name"
damage set_args "$WORK/swift/iter_0000010/common.pt" tensor_model_parallel_size 4
swift 0 "$name" -q
python3 - "$TESTS/support" "$WORK/model/lora_adapter" "$data/$name/expected/lora_adapter" <<'P' || fail "rows of gate and up by ranks"
import sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read
got, stored = (read(path + "/adapter_model.safetensors") for path in sys.argv[2:])
gates = [name for name in stored if name.endswith("gate_proj.lora_B.weight")]
assert gates
for gate in gates:
    up = gate.replace("gate_proj", "up_proj")
    rows = bytes(stored[gate][2] + stored[up][2])
    size = len(rows) // 8
    parts = [rows[i * size:(i + 1) * size] for i in range(8)]
    assert got[gate][2] == b"".join(parts[0::2]) and got[up][2] == b"".join(parts[1::2]), gate
P

# Adapters of other kinds can be left out.
as_swift "$name"
damage rename_text "$WORK/swift/iter_0000010/.metadata" linear_fc2.lora_A.default.weight linear_fc2.lora_magnitude_vector.default.weight
swift 5 "$name"
expect_text "lora_magnitude_vector"
swift 0 "$name" --lora drop
same_tensors "$WORK/model" "$data/$name/expected/base"
expect_text "left out"
expect_code 0 "$SHARDWELD" inspect "$WORK/swift"

# alpha is in run_config.yaml only.
cp -r "$data/llama-tp2-torchdist-fp32/source" "$WORK/source"
chmod -R u+w "$WORK/source"
merging=("$SHARDWELD" merge --local_dir "$WORK/source" --hf_config "$data/llama-tp2-torchdist-fp32/hf" --target_dir "$WORK/none" -q)
sed -i 's/LoRA$/DoRA/' "$WORK/source/iter_0000010/run_config.yaml"
expect_code 5 "${merging[@]}"
expect_text "says that the adapter is of DoRA"
rm "$WORK/source/iter_0000010/run_config.yaml"
expect_code 6 "${merging[@]}"
expect_text "--lora_alpha"
expect_absent "$WORK/none"
expect_code 0 "${merging[@]}" --lora_alpha 8

# Experts' factors with an axis of experts, as Megatron-Bridge's keys have them: a pair for each of them.
moe="$TESTS/data/megatron/qwen3moe-tp2-ep2-torchdist-bf16"
PYTHONPATH="$TESTS/support" python3 - "$moe" "$WORK/experts" "$WORK/pairs" <<'P' || fail "cannot write factors of experts"
import json, os, struct, sys
import edit_safetensors, write_megatron

moe, out, pairs = sys.argv[1:]
config = json.load(open(moe + "/hf/config.json"))
layers, experts, h, f, r = config["num_hidden_layers"], config["num_local_experts"], config["hidden_size"], config["moe_intermediate_size"], 2
options = {"in_front": "", "language": "", "experts": "te", "wrapped": "", "adapter": "", "hub": "model.", "tower": ""}
stored = write_megatron.renamed(edit_safetensors.read(moe + "/expected/model.safetensors"), config, options)
counter = iter(range(1, 10**9))

def values(n):
    return b"".join(struct.pack("<f", (next(counter) % 97 - 48) / 64) for _ in range(n))

expected = {}
for kind, n_in, n_out, names in (("linear_fc1", h, 2 * f, ("gate_proj", "up_proj")), ("linear_fc2", f, h, ("down_proj",))):
    for layer in range(layers):
        a, b = values(experts * r * n_in), values(experts * n_out * r)
        at = f"decoder.layers.{layer}.mlp.experts.experts.{kind}.adapter."
        stored[at + "linear_in.weight"] = ("F32", [experts, r, n_in], a)
        stored[at + "linear_out.weight"] = ("F32", [experts, n_out, r], b)
        for e in range(experts):
            rows = n_out // len(names)
            for part, name in enumerate(names):
                key = f"base_model.model.model.layers.{layer}.mlp.experts.{e}.{name}.lora_"
                begin = (e * n_out + part * rows) * r * 4
                expected[key + "A.weight"] = ["F32", [r, n_in], a[e * r * n_in * 4:(e + 1) * r * n_in * 4]]
                expected[key + "B.weight"] = ["F32", [rows, r], b[begin:begin + rows * r * 4]]
write_megatron.write(stored, out)
os.makedirs(pairs)
edit_safetensors.write(pairs + "/adapter_model.safetensors", expected)
json.dump({"peft_type": "LORA", "r": r, "lora_alpha": 4, "target_modules": "all-linear"}, open(pairs + "/adapter_config.json", "w"))
P
expect_code 0 mpirun -n 2 "$SHARDWELD" merge --local_dir "$WORK/experts" --hf_config "$moe/hf" --target_dir "$WORK/split" --lora_alpha 4 --no_fsync
same_tensors "$WORK/split" "$moe/expected"
same_tensors "$WORK/split/lora_adapter" "$WORK/pairs"
expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/experts" --hf_config "$moe/hf" --target_dir "$WORK/folded" --lora_alpha 4 --lora fold --no_fsync
expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/split/lora_adapter" --base "$WORK/split" --target_dir "$WORK/folded_by_peft" --lora fold --no_fsync
same_tensors "$WORK/folded" "$WORK/folded_by_peft"

# Factors on every matrix of families whose modules are cut otherwise than Megatron's: fused on the hub, turned round, with keys as values of
# an axis, towers. Folded is the merge of the sums, to the bit; split, what PEFT adds is the same.
families="$TESTS/data/megatron_families"
as_legacy() { # CASE: in $WORK/base, written by reshape, so that there is one rank
    rm -rf "$WORK/base" "$WORK/sum" "$WORK/factors"
    rm -rf "$WORK/hub"
    expect_code 0 "$SHARDWELD" merge --local_dir "$families/$1/source" --target_dir "$WORK/hub" --hf_config "$families/$1/hf" --dtype fp32 --no_fsync
    expect_code 0 "$SHARDWELD" reshape "$WORK/hub" "$WORK/base" --to legacy --no_fsync
    cp -r "$WORK/base" "$WORK/sum"
    cp -r "$WORK/base" "$WORK/factors"
}
add_factors() { # DIR OPTIONS
    python3 "$TESTS/support/add_factors.py" "$(find "$1" -name model_optim_rng.pt)" "${@:2}" >"$WORK/changed" || fail "cannot add factors to $1"
}
merge_of() { # CODE NAME CASE OPTIONS: $WORK/NAME to $WORK/NAME.out
    rm -rf "$WORK/$2.out"
    expect_code "$1" "$SHARDWELD" merge --local_dir "$WORK/$2" --target_dir "$WORK/$2.out" --hf_config "$families/$3/hf" --no_fsync "${@:4}"
}
# folds CASE NAMES [OPTIONS]: what is folded into the weights of these names is their sum.
folds() {
    as_legacy "$1"
    add_factors "$WORK/sum" sum=yes names="$2"
    add_factors "$WORK/factors" names="$2" "${@:3}"
    [[ -s "$WORK/changed" ]] || fail "$1: no weight is called $2"
    merge_of 0 sum "$1"
    merge_of 0 factors "$1" --lora fold --lora_alpha 4
    same_tensors "$WORK/factors.out" "$WORK/sum.out"
}
# Towers' factors, as Megatron's layers and as LinearAdapter have them.
folds internvlqwen3-tp2-legacy-bf16 '((?!embedding).)*' bare='vision_projection.*'
merge_of 0 factors internvlqwen3-tp2-legacy-bf16 --lora_alpha 4
expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/factors.out/lora_adapter" --base "$WORK/factors.out" --target_dir "$WORK/by_peft" --lora fold --no_fsync
same_tensors "$WORK/by_peft" "$WORK/sum.out"
folds kimik3-tp2-ep2-torchdist-bf16 '.*'
# What is split off has the names of modules that PEFT finds, not the hub's, and is folded to the same.
as_legacy gemma3vl-tp2-legacy-bf16
add_factors "$WORK/factors" names='((?!embed).)*layers.0.((?!embed).)*'
merge_of 0 factors gemma3vl-tp2-legacy-bf16 --lora fold --lora_alpha 4
mv "$WORK/factors.out" "$WORK/by_layouts"
merge_of 0 factors gemma3vl-tp2-legacy-bf16 --lora_alpha 4
python3 - "$TESTS/support" "$WORK/factors.out/lora_adapter" <<'P' || fail "gemma3: names that PEFT does not find"
import sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read
begins = {".".join(name.split(".")[:5]) for name in read(sys.argv[2] + "/adapter_model.safetensors")}
assert begins == {"base_model.model.model.language_model.layers", "base_model.model.model.vision_tower.encoder"}, begins
P
rm -rf "$WORK/by_peft"
expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/factors.out/lora_adapter" --base "$WORK/factors.out" --target_dir "$WORK/by_peft" --lora fold --no_fsync
same_tensors "$WORK/by_peft" "$WORK/by_layouts"
add_factors "$WORK/factors" names='.*position_embedding.*'
merge_of 5 factors gemma3vl-tp2-legacy-bf16 --lora_alpha 4
# No class that PEFT loads has layers of multi-token prediction.
as_legacy exaonemoe-mtp-legacy-made
add_factors "$WORK/factors" names='mtp.*linear_proj.*'
merge_of 5 factors exaonemoe-mtp-legacy-made --lora_alpha 4
expect_text "--lora fold"
merge_of 0 factors exaonemoe-mtp-legacy-made --lora fold --lora_alpha 4
# Behind a part's name (thinker), in layers that others lack, and where a finished model tells how the family is spelled.
as_legacy qwen3asr-tp2-legacy-bf16
add_factors "$WORK/factors" names='thinker.language_model.*layers.1.*'
merge_of 0 factors qwen3asr-tp2-legacy-bf16 --lora fold --lora_alpha 4
as_legacy nemotronnas-tp2-pp2-torchdist-bf16
add_factors "$WORK/factors" names='.*linear_fc.*'
merge_of 0 factors nemotronnas-tp2-pp2-torchdist-bf16 --lora fold --lora_alpha 4
as_legacy deepseekv4-tp1-legacy-bf16
add_factors "$WORK/factors" names='.*layers.0.*linear_proj.*'
merge_of 0 factors deepseekv4-tp1-legacy-bf16 --lora fold --lora_alpha 4
expect_code 13 "$SHARDWELD" diff "$WORK/factors.out" "$WORK/hub" --json
python3 -c 'import json, sys; sys.exit({t["result"] for t in json.load(open(sys.argv[1]))["tensors"]} != {"same_bits", "values"})' "$WORK/out" ||
    fail "deepseek v4: other names beside an adapter"
# Turned round, one of them square: what is split off is folded to the same.
folds gpt2-tp2-legacy-bf16 '.*linear.*'
merge_of 0 factors gpt2-tp2-legacy-bf16 --lora_alpha 4
rm -rf "$WORK/by_peft"
expect_code 0 "$SHARDWELD" merge --local_dir "$WORK/factors.out/lora_adapter" --base "$WORK/factors.out" --target_dir "$WORK/by_peft" --lora fold --no_fsync
same_tensors "$WORK/by_peft" "$WORK/sum.out"
# Head and embedding are one: a factor of one of them leaves the other as it was.
merge_of 0 base gpt2-tp2-legacy-bf16
cp -r "$WORK/base" "$WORK/embedded"
add_factors "$WORK/embedded" names='.*word_embeddings.*'
merge_of 0 embedded gpt2-tp2-legacy-bf16 --lora fold --lora_alpha 4
expect_text "tie_word_embeddings"
python3 - "$TESTS/support" "$WORK/embedded.out" "$WORK/base.out" <<'P' || fail "head and embedding of a tied model"
import sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read
got, base = (read(path + "/model.safetensors") for path in sys.argv[2:])
embedding = base["transformer.wte.weight"][2]
assert got["lm_head.weight"][2] == embedding and got["transformer.wte.weight"][2] != embedding
P
# Canonical gate and up where the model has one module: a fold, but no pair of PEFT's; and one of them alone.
folds glm-tp2-torchdist-bf16 '.*linear_fc1.*' parts=gate:48,up:48
merge_of 5 factors glm-tp2-torchdist-bf16 --lora_alpha 4
expect_text "--lora fold"
rm -rf "$WORK/factors"
cp -r "$WORK/base" "$WORK/factors"
add_factors "$WORK/factors" names='.*linear_fc1.*' parts=gate:48
merge_of 0 factors glm-tp2-torchdist-bf16 --lora fold --lora_alpha 4
merge_of 0 factors glm-tp2-torchdist-bf16 --lora_alpha 4
# Half of a pair is a factor that nothing is made of.
rm -rf "$WORK/factors"
cp -r "$WORK/base" "$WORK/factors"
add_factors "$WORK/factors" names='.*layers.0.*linear_proj.*'
damage rename_text "$(find "$WORK/factors" -name model_optim_rng.pt)" .adapter.linear_out .adapter.linear_in_
merge_of 5 factors glm-tp2-torchdist-bf16 --lora fold --lora_alpha 4
finish
