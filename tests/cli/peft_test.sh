#!/usr/bin/env bash
# PEFT's own directories as checkpoints: written beside their base or folded into it, with what PEFT saves beside the factors. What is
# expected was written by peft: save_pretrained, merge_and_unload.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
torch="$TESTS/data/torch"

# same GOT EXPECTED: models (or adapters) with the same bytes.
same() {
    python3 "$TESTS/support/compare_safetensors.py" "$1" "$2" >/dev/null 2>"$WORK/compare" || fail "$1: $(cat "$WORK/compare")"
}

# expect_no_text TEXT: the last command did not print it.
expect_no_text() {
    ! grep -qF -- "$1" "$WORK/err" || fail "prints: $1"
}

# merge CODE RANKS ARGUMENTS...
merge() {
    local launcher=()
    (($2 == 0)) || launcher=(mpirun -n "$2")
    rm -rf "$WORK/model" "$WORK/.model.shardweld-partial"
    expect_code "$1" "${launcher[@]}" "$SHARDWELD" merge --target_dir "$WORK/model" "${@:3}"
}

# taken_apart CASE: its base in $WORK/base, its adapter as PEFT saves it in $WORK/adapter.
taken_apart() {
    rm -rf "$WORK/base" "$WORK/adapter"
    expect_code 0 "$SHARDWELD" merge --local_dir "$torch/$1/source" --target_dir "$WORK/base" -q
    mv "$WORK/base/lora_adapter" "$WORK/adapter"
    same "$WORK/adapter" "$torch/$1/expected/lora_adapter"
    cp "$torch/$1/expected/lora_adapter/adapter_config.json" "$WORK/adapter/"
}

# edit_config PYTHON-STATEMENT on the adapter's configuration c
edit_config() {
    python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); exec(sys.argv[2]); json.dump(c, open(sys.argv[1], "w"))' \
        "$WORK/adapter/adapter_config.json" "$1" || fail "cannot edit adapter_config.json"
}

# Linear layers, exactly; without options the adapter is written again.
taken_apart fsdp2_lora_w2_fp32_qwen2
for ranks in 0 1 3; do
    merge 0 "$ranks" --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold -q
    same "$WORK/model" "$torch/fsdp2_lora_w2_fp32_qwen2/expected/merged"
done
merge 0 2 --local_dir "$WORK/adapter"
same "$WORK/model/lora_adapter" "$WORK/adapter"
expect_text "PEFT adapter"
expect_absent "$WORK/model/config.json"
merge 0 2 --local_dir "$WORK/adapter" --base "$WORK/base" -q
same "$WORK/model" "$WORK/base"
same "$WORK/model/lora_adapter" "$WORK/adapter"
expect_code 0 "$SHARDWELD" inspect "$WORK/adapter"
merge 2 0 --local_dir "$WORK/adapter" --lora fold
expect_text "--base"

# The one that a trainer saved last; a directory that says so; no silence about another file beside it.
mkdir "$WORK/run"
cp -r "$WORK/adapter" "$WORK/run/checkpoint-10"
cp -r "$WORK/adapter" "$WORK/run/checkpoint-20"
cp "$WORK/run/checkpoint-20/adapter_model.safetensors" "$WORK/run/checkpoint-20/adapter_model.bin"
merge 0 0 --local_dir "$WORK/run"
expect_text "adapter_model.bin lies beside adapter_model.safetensors"
merge 14 0 --local_dir "$WORK/run" --strict
rm "$WORK/run/checkpoint-20/adapter_config.json"
merge 3 0 --local_dir "$WORK/run/checkpoint-20"
expect_text "no adapter_config.json"

# Settings that do not fit what is stored are told.
while read -r statement text; do
    cp "$torch/fsdp2_lora_w2_fp32_qwen2/expected/lora_adapter/adapter_config.json" "$WORK/adapter/"
    edit_config "$statement"
    merge 0 0 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold && expect_text "$text"
done <<'CASES'
c["peft_type"]=None does not say which method
c["layers_to_transform"]=[0] factors of other layers are stored
c["layers_to_transform"]=[0,1,7] no factors are stored of layer 7
c["modules_to_save"]=["embed_tokens"] nothing is stored of embed_tokens
c["target_modules"].append("k_proj") no factors are stored of 2 modules that it names
c["target_modules"].remove("q_proj") not all modules are named
c["alpha_pattern"]={"nothing":3} no module with factors is named by nothing
c["target_parameters"]=["mlp.w"] no factors are stored of mlp.w
CASES
cp "$torch/fsdp2_lora_w2_fp32_qwen2/expected/lora_adapter/adapter_config.json" "$WORK/adapter/"
merge 0 0 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold
expect_no_text "adapter_config.json ("

# A factor of which some ranks' rows were lost, and a warning that is an error under --strict.
python3 - "$TESTS/support" "$WORK/adapter/adapter_model.safetensors" <<'P' || fail "cannot zero rows"
import sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read, write
tensors = read(sys.argv[2])
name = next(n for n in tensors if n.endswith("lora_B.weight"))
data = tensors[name][2]
data[len(data) // 4:] = bytes(len(data) - len(data) // 4)
write(sys.argv[2], tensors)
P
for how in fold split; do
    merge 0 2 --local_dir "$WORK/adapter" --base "$WORK/base" --lora "$how"
    expect_text "of the adapter is zeros for the most part (untrained, or saved in part): "
    expect_text " rows)"
done
merge 14 0 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold --strict
expect_absent "$WORK/model"

# DoRA, embeddings, a module trained as a whole; biases, patterns, rsLoRA.
for case in lora_dora_embed_w2 lora_patterns_bias_w1; do
    taken_apart "$case"
    merge 0 3 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold
    expect_code 0 "$SHARDWELD" diff "$WORK/model" "$torch/$case/expected/merged" --atol 1e-6 --rtol 1e-6
    merge 0 2 --local_dir "$WORK/adapter" --base "$WORK/base" -q
    same "$WORK/model" "$WORK/base"
    same "$WORK/model/lora_adapter" "$WORK/adapter"
done
edit_config 'c["bias"] = "none"'
merge 0 0 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold
expect_text "stored beside the factors: the base's are replaced"

# Parameters that hold all experts: peft 0.21 on transformers 5, whose base keeps experts one by one (Qwen3-MoE) or as they are (GPT-OSS). The
# layout of peft before 0.19.1 has A and B exchanged where output dims come first.
swap_factors() { # FILE: B' = A^T, A' = B^T of each expert
    python3 - "$TESTS/support" "$1" "$2" <<'P' || fail "cannot rewrite the factors"
import sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read, write
tensors, n = read(sys.argv[2]), int(sys.argv[3])
for name in [name for name in tensors if ".experts." in name and name.endswith("lora_A.weight")]:
    other = name.replace("lora_A", "lora_B")
    (_, (rows, n_in), a), (_, (n_out, _), b) = tensors[name], tensors[other]
    r = rows // n
    at = lambda data, i: data[4 * i:4 * i + 4]
    new_a = b"".join(at(b, o * rows + k * n + e) for e in range(n) for k in range(r) for o in range(n_out))
    new_b = b"".join(at(a, (e * r + k) * n_in + i) for i in range(n_in) for k in range(r) for e in range(n))
    tensors[name] = ["F32", [rows, n_out], new_a]
    tensors[other] = ["F32", [n_in, rows], new_b]
write(sys.argv[2], tensors)
P
}
for case in qwen3moe-experts gptoss-experts; do
    data="$TESTS/data/peft/$case"
    for ranks in 0 3; do
        merge 0 "$ranks" --local_dir "$data/adapter" --base "$data/base" --lora fold --memory_limit 1MiB
        expect_code 0 "$SHARDWELD" diff "$WORK/model" "$data/expected/merged" --atol 1e-6 --rtol 1e-6
        expect_code 13 "$SHARDWELD" diff "$WORK/model" "$data/base" --atol 1e-3 --rtol 1e-3
    done
    merge 0 2 --local_dir "$data/adapter" --base "$data/base"
    same "$WORK/model/lora_adapter" "$data/adapter"
    expect_no_text "target_parameters"
    config_kept='import json, sys; a, b = (json.load(open(p)) for p in sys.argv[1:]); assert all(a[f] == b[f] for f in ("r", "target_modules", "target_parameters", "rank_pattern"))'
    python3 -c "$config_kept" "$WORK/model/lora_adapter/adapter_config.json" "$data/adapter/adapter_config.json" || fail "$case: another configuration"
done
rm -rf "$WORK/adapter"
cp -r "$TESTS/data/peft/qwen3moe-experts/adapter" "$WORK/adapter"
chmod -R u+w "$WORK/adapter"
swap_factors "$WORK/adapter/adapter_model.safetensors" 3
edit_config 'c["peft_version"] = "0.18.1"'
merge 0 2 --local_dir "$WORK/adapter" --base "$TESTS/data/peft/qwen3moe-experts/base" --lora fold
expect_code 0 "$SHARDWELD" diff "$WORK/model" "$TESTS/data/peft/qwen3moe-experts/expected/merged" --atol 1e-6 --rtol 1e-6
# Squares (down_proj): the shapes of the other factors tell which dim is the input's, whatever the version says.
edit_config 'c["peft_version"] = "0.21.2"'
merge 0 0 --local_dir "$WORK/adapter" --base "$TESTS/data/peft/qwen3moe-experts/base" --lora fold
expect_text "states peft_version 0.21.2"
expect_code 0 "$SHARDWELD" diff "$WORK/model" "$TESTS/data/peft/qwen3moe-experts/expected/merged" --atol 1e-6 --rtol 1e-6
# Without those: fields tell that a release wrote the file which is newer than the version in it; else the version; else nothing does.
squares() { # ADAPTER: it, of squares alone, and its configuration
    rm -rf "$WORK/adapter"
    cp -r "$1" "$WORK/adapter"
    chmod -R u+w "$WORK/adapter"
    python3 "$TESTS/support/edit_safetensors.py" "$WORK/adapter/adapter_model.safetensors" drop_all 'base_layer' || fail "cannot drop factors"
    edit_config 'c["target_parameters"] = ["mlp.experts.down_proj"]'
}
fold_squares() { # CODE
    merge "$1" 0 --local_dir "$WORK/adapter" --base "$TESTS/data/peft/qwen3moe-experts/base" --lora fold
}
drop_new="[c.pop(f) for f in ('kasa_config', 'monteclora_config', 'velora_config')]"
squares "$TESTS/data/peft/qwen3moe-experts/adapter"
fold_squares 0
mv "$WORK/model" "$WORK/squares"
edit_config 'c["peft_version"] = "0.18.1"'
fold_squares 0
same "$WORK/model" "$WORK/squares"
expect_text "states peft_version 0.18.1"
edit_config "$drop_new"
fold_squares 5
expect_text "a square of which nothing tells which dim is the input's"
expect_absent "$WORK/model"
edit_config 'c.pop("peft_version")'
fold_squares 5
edit_config "[c.pop(f) for f in ('lora_ga_config', 'use_bdlora')]; c['peft_version'] = '0.21.2'"
fold_squares 5
edit_config 'c["peft_version"] = "0.18.1"'
swap_factors "$WORK/adapter/adapter_model.safetensors" 3
fold_squares 0
same "$WORK/model" "$WORK/squares"

# A single module of another rank than the configuration says, as add_weighted_adapter leaves it.
taken_apart fsdp2_lora_w2_fp32_qwen2
edit_config 'c["r"] = 8; c["rank_pattern"] = {"layers.0.self_attn.[qov]_proj|layers.0.mlp.[a-z]+_proj": 4}'
merge 6 0 --local_dir "$WORK/adapter" --base "$WORK/base" --lora fold --lora_alpha 8
expect_text "rank_pattern"
expect_absent "$WORK/model"

# Head and embedding in one: what PEFT adapts is the module, so the folded model has two matrices, unless both were trained to be one.
python3 "$TESTS/support/tied_adapters.py" "$WORK/tied" || fail "cannot make adapters of a tied model"
tied="$WORK/tied"
says_tied() { # DIR true|false
    python3 -c 'import json, sys; sys.exit(json.load(open(sys.argv[1]))["tie_word_embeddings"] != (sys.argv[2] == "true"))' "$1/config.json" "$2" ||
        fail "$1: tie_word_embeddings is not $2"
}
for case in embed head both tying whole_embed whole_head; do
    merge 0 2 --local_dir "$tied/$case" --base "$tied/base" --lora fold
    same "$WORK/model" "$tied/want_$case"
    says_tied "$WORK/model" false
    expect_text "config.json's tie_word_embeddings is set to false"
    merge 0 0 --local_dir "$tied/live_$case" --backend hf --lora fold
    same "$WORK/model" "$tied/want_$case"
    says_tied "$WORK/model" false
    merge 0 0 --local_dir "$tied/$case" --base "$tied/base" -q
    same "$WORK/model" "$tied/base"
done
merge 14 0 --local_dir "$tied/embed" --base "$tied/base" --lora fold --strict
for case in grown grown_embed grown_head; do
    merge 6 0 --local_dir "$tied/$case" --base "$tied/base" --lora fold
    expect_text "--vocab_size 14"
    merge 0 2 --local_dir "$tied/$case" --base "$tied/base" --lora fold --vocab_size 14
    same "$WORK/model" "$tied/want_$case"
done
# A base in bf16: sums are rounded once, not the product first (safe_merge); DoRA's magnitudes are the adapter's, though PEFT took them from norms
# rounded to bf16.
python3 - "$TESTS/support" "$tied/base_bf16/model.safetensors" "$WORK" <<'P' || fail "cannot make adapters of a bf16 model"
import json, os, struct, sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read, write
base, work = read(sys.argv[2]), sys.argv[3]
name, n = "model.layers.0.self_attn.q_proj", 8
bits = lambda x: struct.unpack("<I", struct.pack("<f", x))[0]
def bf16(x):
    at = bits(x)
    return (at + 0x7FFF + (at >> 16 & 1)) >> 16
value = lambda half: struct.unpack("<f", struct.pack("<I", half << 16))[0]
halves = struct.unpack(f"<{n * n}H", bytes(base[name + ".weight"][2]))
rows = [[value(h) for h in halves[i * n:(i + 1) * n]] for i in range(n)]
floats = lambda shape, data: ["F32", shape, bytearray(struct.pack(f"<{len(data)}f", *data))]
def adapter(case, b, magnitudes, wanted):
    tensors = {f"base_model.model.{name}.lora_A.weight": floats([1, n], [1.0] * n), f"base_model.model.{name}.lora_B.weight": floats([n, 1], b)}
    if magnitudes:
        tensors[f"base_model.model.{name}.lora_magnitude_vector"] = floats([n], magnitudes)
    os.makedirs(f"{work}/{case}")
    write(f"{work}/{case}/adapter_model.safetensors", tensors)
    config = {"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"], "use_dora": bool(magnitudes)}
    json.dump(config, open(f"{work}/{case}/adapter_config.json", "w"))
    model = dict(base)
    model[name + ".weight"] = ["BF16", [n, n], bytearray(struct.pack(f"<{n * n}H", *[bf16(x) for row in wanted for x in row]))]
    assert model[name + ".weight"][2] != base[name + ".weight"][2]
    write(f"{work}/{case}.wanted.safetensors", model)
x = 2**-8 + 2**-18
assert any(bf16(w + x) != bf16(w + value(bf16(x))) for row in rows for w in row)
adapter("rounded", [x] * n, None, [[w + x for w in row] for row in rows])
norms = [sum(w * w for w in row) ** 0.5 for row in rows]
stored = [value(bf16(norm)) for norm in norms]
adapter("untrained_dora", [0.0] * n, stored, [[w * m / norm for w in row] for row, m, norm in zip(rows, stored, norms)])
P
for case in rounded untrained_dora; do
    merge 0 0 --local_dir "$WORK/$case" --base "$tied/base_bf16" --lora fold
    same "$WORK/model/model.safetensors" "$WORK/$case.wanted.safetensors"
done
# Outputs made of the same read, and a training checkpoint, have both matrices, too.
merge 0 2 --local_dir "$tied/embed" --base "$tied/base" --lora fold --also "$WORK/also:bf16"
expect_code 0 "$SHARDWELD" diff "$WORK/also" "$tied/want_embed" --atol 0.1 --rtol 0.01
says_tied "$WORK/also" false
expect_code 0 "$SHARDWELD" reshape "$tied/head" "$WORK/dist" --to torch_dist --lora fold --base "$tied/base"
expect_code 0 "$SHARDWELD" merge "$WORK/dist" "$WORK/back"
same "$WORK/back" "$tied/want_head"
# Without a recipe nothing tells what the head is called.
merge 5 0 --local_dir "$tied/embed" --base "$tied/base" --lora fold --names module
expect_absent "$WORK/model"

# Factors that are called as in the text model alone, or as in an older class of the family.
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/qwen3_5.json" "$WORK/vision" || fail "cannot make a model"
mkdir "$WORK/spelled"
for begin in model.language_model. model. language_model.model.; do
    python3 - "$TESTS/support" "$WORK" "$begin" <<'P' || fail "cannot make an adapter"
import json, struct, sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read, write
work, module = sys.argv[2], "layers.3.self_attn.o_proj"
rows, columns = read(work + "/vision/model.safetensors")[f"model.language_model.{module}.weight"][1]
ones = lambda *shape: ["F32", list(shape), bytearray(struct.pack("<f", 1) * (shape[0] * shape[1]))]
name = f"base_model.model.{sys.argv[3]}{module}"
write(work + "/spelled/adapter_model.safetensors", {name + ".lora_A.weight": ones(2, columns), name + ".lora_B.weight": ones(rows, 2)})
config = {"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["o_proj"], "alpha_pattern": {sys.argv[3] + module: 4}}
json.dump(config, open(work + "/spelled/adapter_config.json", "w"))
P
    merge 0 0 --local_dir "$WORK/spelled" --base "$WORK/vision" --lora fold
    [[ -e "$WORK/own" ]] || mv "$WORK/model" "$WORK/own"
    [[ ! -e "$WORK/model" ]] || same "$WORK/model" "$WORK/own"
    expect_no_text "adapter_config.json ("
done
expect_code 13 "$SHARDWELD" diff "$WORK/own" "$WORK/vision"
# Beside its base, PEFT would leave such factors out; those of other shapes are of another model.
merge 0 0 --local_dir "$WORK/spelled" --base "$WORK/vision"
expect_text "language_model.model.layers.3.self_attn.o_proj"
expect_text "without an error"
sed -i 's/language_model.model.layers.3.self_attn.o_proj.lora/model.language_model.layers.3.self_attn.q_proj.lora/g' "$WORK/spelled/adapter_model.safetensors"
merge 6 0 --local_dir "$WORK/spelled" --base "$WORK/vision"
expect_absent "$WORK/model"
# Modules that transformers makes of tensors with other names: the base does have them, but they cannot be folded into its files.
python3 "$TESTS/support/random_model.py" "$TESTS/data/hf_names/phimoe.json" "$WORK/phimoe" || fail "cannot make a model"
python3 - "$TESTS/support" "$WORK" <<'P' || fail "cannot make an adapter"
import json, struct, sys
sys.path.insert(0, sys.argv[1])
from edit_safetensors import read, write
work = sys.argv[2]
rows, columns = next(t[1] for n, t in read(work + "/phimoe/model.safetensors").items() if n.endswith("layers.0.block_sparse_moe.gate.weight"))
ones = lambda *shape: ["F32", list(shape), bytearray(struct.pack("<f", 1) * (shape[0] * shape[1]))]
name = "base_model.model.model.layers.0.mlp.router"
write(work + "/spelled/adapter_model.safetensors", {name + ".lora_A.weight": ones(2, columns), name + ".lora_B.weight": ones(rows, 2)})
json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 2, "target_modules": ["router"]}, open(work + "/spelled/adapter_config.json", "w"))
P
merge 5 0 --local_dir "$WORK/spelled" --base "$WORK/phimoe" --lora fold
expect_text "--lora split"
expect_absent "$WORK/model"
merge 0 0 --local_dir "$WORK/spelled" --base "$WORK/phimoe"
expect_no_text "without an error"
finish
