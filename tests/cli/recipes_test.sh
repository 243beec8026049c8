#!/usr/bin/env bash
# `shardweld recipes`: the list, the texts, and fixtures that are really there.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

expect_code 0 "$SHARDWELD" recipes
for name in llama qwen2 qwen3 qwen2_moe qwen3_moe mixtral deepseek_v3 gemma megatron_core; do
    grep -qw "$name" "$WORK/out" || fail "recipes does not list $name"
done
[[ -z "$(grep -E '^.{101}' "$WORK/out")" ]] || fail "the list of recipes is wider than 100 columns"
grep -qE '^mixtral +mixtral +1 +[0-9]+ ' "$WORK/out" || fail "mixtral in the list of recipes: $(grep ^mixtral "$WORK/out")"
for row in 'mixtral .* both' 'llama4 .* like' 'bert .* -'; do
    grep -qE "^$row\$" "$WORK/out" || fail "the column of what is written is not as in '$row'"
done
expect_code 0 "$SHARDWELD" recipes llama4
grep -q '^# Not written as Megatron.s legacy files: no checkpoint' "$WORK/out" || fail "recipes llama4 does not say why it is not written"
expect_code 0 "$SHARDWELD" recipes mixtral
grep -q '^# Checked against megatron legacy: mixtral-ep2-pp2-legacy-bf16' "$WORK/out" || fail "recipes mixtral does not say what it was checked against"
expect_code 2 "$SHARDWELD" recipes no_such_family && expect_text "no_such_family"
expect_code 5 "$SHARDWELD" recipes olmo_hybrid && expect_text "cut in parts of several sizes"

# A recipe for a family that has none: suggested from a finished model, it makes what the model has.
py "$TESTS/data/hf_names/phi3.json" "$WORK/new" <<'P' || fail "cannot make a model"
import json, pathlib, sys
import plan_tables
table = json.load(open(sys.argv[1]))
names = plan_tables.unfolded(table["saved"])
names.update({f"model.layers.{at}.extra_norm.weight": [72] for at in (0, 1)})
plan_tables.write_model(pathlib.Path(sys.argv[2]), {**table["config"], "model_type": "phi_new"}, names)
# Layers with one more of several shapes, numbers in their names, some of them missing; a name that no recipe can have.
names.update({f"model.layers.{at}.mix.{i}.square.weight": [72, 72] for at in (0, 1) for i in range(3)})
names.update({f"model.layers.{at}.mix.odd": [5, 5, 7] for at in (0, 1)})
names.update({f"model.layers.{at}.attn_norm.weight": [11] for at in (0, 1)})
names.update({"model.layers.0.a b{c}#\x1b": [9], "model.layers.1.late.bias": [9], "model.layers.1.scale": [], "tower.blocks.0.weight": [3]})
plan_tables.write_model(pathlib.Path(sys.argv[2] + "_odd"), {**table["config"], "model_type": "phi-new.2"}, names)
P
expect_code 0 "$SHARDWELD" recipes suggest --ref "$WORK/new"
cp "$WORK/out" "$WORK/suggested.recipe"
grep -q '^extends phi3$' "$WORK/out" || fail "suggest does not find the nearest family: $(cat "$WORK/out")"
grep -q '^  extra_norm.weight = extra_norm  h ' "$WORK/out" || fail "suggest does not place a new tensor: $(cat "$WORK/out")"
expect_code 0 "$SHARDWELD" recipes check "$WORK/suggested.recipe" --ref "$WORK/new"
expect_code 0 "$SHARDWELD" recipes suggest --ref "$WORK/new_odd"
cp "$WORK/out" "$WORK/odd.recipe"
expect_code 13 "$SHARDWELD" recipes check "$WORK/odd.recipe" --ref "$WORK/new_odd" && expect_text "differ in 1 tensors"
expect_code 0 "$SHARDWELD" recipes suggest --ref "$WORK/new" --local_dir "$TESTS/data/megatron_families/phi3-tp2-torchdist-bf16/source"
grep -q '^  # extra_norm.weight: no stored tensor' "$WORK/out" || fail "suggest places what Megatron does not store: $(cat "$WORK/out")"
mkdir "$WORK/far"
py "$WORK/far/far" <<'P' || fail "cannot make a model"
import pathlib, sys
import plan_tables
plan_tables.write_model(pathlib.Path(sys.argv[1]), {"model_type": "far", "hidden_size": 8, "vocab_size": 9}, {"a.b": [3], "c.d": [4]})
P
expect_code 5 "$SHARDWELD" recipes suggest --ref "$WORK/far/far" && expect_text "no family is near"
sed '/extra_norm/d' "$WORK/suggested.recipe" >"$WORK/short.recipe"
expect_code 13 "$SHARDWELD" recipes check "$WORK/short.recipe" --ref "$WORK/new"
grep -q '^missing: model.layers.0.extra_norm.weight' "$WORK/out" || fail "check does not name what is missing: $(cat "$WORK/out")"
expect_code 2 "$SHARDWELD" recipes suggest && expect_text "--ref"
# What asks transformers says so where Python has none.
mkdir "$WORK/none"
echo 'raise ImportError("no torch here")' | tee "$WORK/none/torch.py" >"$WORK/none/safetensors.py"
PYTHONPATH="$WORK/none" expect_code 5 "$SHARDWELD" recipes generate opt --out "$WORK/made" && expect_text "no torch here"
[[ ! -e "$WORK/made" ]] || fail "recipes generate writes without transformers"
expect_code 2 "$SHARDWELD" recipes generate && expect_text "--topic"

# A config.json that promises more than any model has is refused at once, also where conditions leave all of it out.
py "$TESTS/data/hf_names/qwen3_moe.json" "$WORK/promises" <<'P' || fail "cannot make a model"
import json, pathlib, sys
import plan_tables
table = json.load(open(sys.argv[1]))
config = {**table["config"], "num_experts": 10**13, "num_local_experts": 10**13, "mlp_only_layers": [0, 1]}
plan_tables.write_model(pathlib.Path(sys.argv[2]), config, plan_tables.unfolded(table["saved"]))
P
printf 'recipe promises\nextends qwen3_moe\nuses none\nmatch @model_type = "qwen3_moe"\n' >"$WORK/promises.recipe"
expect_code 6 "$SHARDWELD" recipes check "$WORK/promises.recipe" --ref "$WORK/promises" && expect_text "more than a million tensors"

expect_code 6 "$SHARDWELD" recipes --config "$WORK/promises" --json --recipe "$WORK/promises.recipe" && expect_text "more than a million tensors"

# Evaluated for a config.json: the names and shapes that the model was saved with; the reason where there are none.
py "$SHARDWELD" "$TESTS" "$WORK/evaluated" <<'P' || fail "recipes --config"
import json, pathlib, subprocess, sys
shardweld, tests, work = sys.argv[1:]
import plan_tables

def evaluated(config, *words):
    pathlib.Path(work).mkdir(exist_ok=True)
    pathlib.Path(work, "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    run = subprocess.run([shardweld, "recipes", *words, "--config", work, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return run.returncode, json.loads(run.stdout)

for name in ("qwen3.tied", "qwen3_moe", "deepseek_v3", "bert.ForPreTraining", "gemma3_text"):
    table = json.loads(pathlib.Path(tests, "data/hf_names", name + ".json").read_text())
    code, told = evaluated(table["config"])
    saved = plan_tables.unfolded(table["saved"])
    made = {row["name"]: row["shape"] for row in told["tensors"]}
    needed = {row["name"] for row in told["tensors"] if not row["optional"]}
    assert code == 0 and told["fault"] == "" and needed <= set(saved), (name, code, told["fault"], needed - set(saved))
    assert all(made[one] == shape for one, shape in saved.items() if one in made) and len(set(saved) & set(made)) > 9, name
    assert told["transformers_types"].count("bert") == told["transformers_types"].count("xlstm") == 1, told["transformers_types"]
    assert (name[:4] == "bert" or any(row["linear"] for row in told["tensors"])) and set(told["tensors"][0]) == {"name", "shape", "dtype", "optional", "linear", "spellings", "logical", "line"}
config = {"model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": "two"}
code, told = evaluated(config)
assert (code, told["recipe"], told["tensors"]) == (6, "qwen3", []) and "vocab_size" in told["fault"], (code, told["fault"])
code, told = evaluated({"model_type": "nobody"})
assert (code, told["recipe"]) == (5, "") and told["fault"] and told["transformers_types"], (code, told["fault"])
assert evaluated("[")[0] == 4
assert evaluated(table["config"], "qwen3")[1]["recipe"] == "qwen3"
P
expect_code 2 "$SHARDWELD" recipes megatron_core --config "$WORK/promises"
expect_code 3 "$SHARDWELD" recipes --config "$WORK/far"

# --recipe replaces a built-in one: the printed text is accepted and gives the same bytes, a changed one another name.
case_dir="$TESTS/data/megatron/llama-tp4-legacy-bf16"
"$SHARDWELD" recipes llama >"$WORK/llama.recipe"
merge_case "$case_dir" "$WORK/same" 2 --recipe "$WORK/llama.recipe" && same_as_expected "$case_dir" "$WORK/same"
sed 's/^hub model.norm.weight/hub model.renamed.weight/' "$WORK/llama.recipe" >"$WORK/renamed.recipe"
merge_case "$case_dir" "$WORK/renamed" 2 --recipe "$WORK/renamed.recipe"
grep -q '"model.renamed.weight"' "$WORK/renamed/model.safetensors" || fail "--recipe is not used"
sed '/^hub model.norm.weight/d' "$WORK/llama.recipe" >"$WORK/lossy.recipe"
expect_code 6 "$SHARDWELD" merge --local_dir "$case_dir/source" --hf_config "$case_dir/hf" --target_dir "$WORK/lossy" \
    --recipe "$WORK/lossy.recipe" && expect_text "decoder.final_layernorm.weight"
expect_absent "$WORK/lossy"

# Norms stored as weight - 1 are refused, unless a recipe adds the 1.
cp -r "$case_dir" "$WORK/less_one"
for file in "$WORK"/less_one/source/*/*/*.pt; do
    python3 "$TESTS/support/damage.py" set_args "$file" apply_layernorm_1p True || fail "cannot set apply_layernorm_1p"
done
cat >"$WORK/less_one.recipe" <<'R'
recipe llama_less_one
extends llama
match  @model_type = "llama"
let    zero_centred = 1
block  layer
  input_layernorm.weight          = attn_norm  h  add 1
  post_attention_layernorm.weight = ffn_norm   h  add -1
hub    model.norm.weight = norm  h  add 1
R
expect_code 5 "$SHARDWELD" merge --local_dir "$WORK/less_one/source" --hf_config "$case_dir/hf" --target_dir "$WORK/refused"
merge_case "$WORK/less_one" "$WORK/plus_one" 2 --recipe "$WORK/less_one.recipe"
py "$WORK/plus_one" "$case_dir/expected" <<'P' || fail "add 1 and add -1 give other values"
import struct, sys
import edit_safetensors as files

def number(bits):
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]

def rounded(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16

got, stored = files.read(sys.argv[1]), files.read(sys.argv[2])
assert got.keys() == stored.keys()
for name, (_, _, data) in stored.items():
    constant = -1 if "post_attention_layernorm" in name else 1 if "norm" in name else 0
    values = struct.unpack("<%dH" % (len(data) // 2), data)
    wanted = [rounded(number(bits) + constant) for bits in values] if constant else list(values)
    assert list(struct.unpack("<%dH" % (len(data) // 2), got[name][2])) == wanted, name
P
finish
