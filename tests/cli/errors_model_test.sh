#!/usr/bin/env bash
# Checkpoints whose parts contradict each other or config.json: found before anything is written.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/errors.sh"
legacy=megatron/llama-tp4-legacy-bf16
dist=megatron/qwen2-tp2-pp2-torchdist-bf16
moe=megatron/mixtral-ep2-pp2-legacy-bf16
tied=megatron_more/qwen2-tied-pp2-legacy
value=megatron_more/value-qwen3-tp2-legacy
one=mp_rank_01/model_optim_rng.pt
layer=decoder.layers.1.mlp.linear_fc1.weight
norm=decoder.layers.1.mlp.linear_fc1.layer_norm_weight

# config FIELD VALUE: sets a field of the copy's config.json; without VALUE removes it.
config() {
    python3 - "$hf/config.json" "$@" <<'P' || fail "cannot edit config.json"
import json, sys
config = json.load(open(sys.argv[1]))
config.pop(sys.argv[2])
if len(sys.argv) > 3:
    config[sys.argv[2]] = json.loads(sys.argv[3])
json.dump(config, open(sys.argv[1], "w"))
P
}

# other_config CASE FIELD VALUE CODE TEXT...
other_config() {
    local case="$1" field="$2" value="$3" code="$4"
    shift 4
    start "$case"
    config "$field" "$value"
    refused "$field $value" "$code" 0 "$@"
}

for case in "$legacy" "$dist" "$moe" "$tied"; do
    start "$case"
    accepted "$case as it is"
done

# Ranks that contradict each other.
fault "$legacy" "dtype differs among ranks" 6 3 "$layer" "$one" "F16" "BF16" -- set_storage "$one" "$layer" 1 HalfStorage
fault "$legacy" "shape differs among ranks" 6 3 "$layer" "$one" "[47, 64]" "[48, 64]" -- resize "$one" "$layer" 47,64
fault "$legacy" "number of axes differs among ranks" 6 0 "$layer" "$one" -- resize "$one" "$layer" 3072
fault "$legacy" "tensor missing on one rank" 3 3 "tensor $layer in mp_rank_00/model_optim_rng.pt but not in $one" -- drop_tensor "$one" "$layer"
fault "$legacy" "replica missing on one rank" 3 3 "tensor $norm in mp_rank_00/model_optim_rng.pt but not in $one" -- drop_tensor "$one" "$norm"
fault "$legacy" "a tensor on one rank only" 3 0 "tensor decoder.layers.1.mlp.surprise.weight in $one but not in mp_rank_00/model_optim_rng.pt" -- \
    add_tensor "$one" decoder.layers.1.mlp.surprise.weight "$layer"
start "$legacy"
for file in "$iter"/*/*.pt; do
    damage add_tensor "$file" decoder.layers.1.mlp.surprise.weight "$layer"
done
refused "a tensor that no model has" 6 0 "decoder.layers.1.mlp.surprise.weight [48, 64]" "config.json's model_type" "--recipe"
fault "$legacy" "a layer that the model has not" 6 0 "$one" "5 layers up to 9" -- \
    add_tensor "$one" decoder.layers.9.mlp.linear_fc1.weight "$layer"
fault "$legacy" "args of another run" 6 0 "num_layers" "8" "mp_rank_01" -- set_args "$one" num_layers 8
fault "$legacy" "args of another parallel size" 6 0 "tensor_model_parallel_size" "mp_rank_01" -- set_args "$one" tensor_model_parallel_size 8
fault "$legacy" "replica that differs" 6 3 "model.layers.1.post_attention_layernorm.weight" "$one" "--replicas trust" -- \
    flip_record "$one" data/11
fault "$moe" "expert-parallel replica that differs" 6 3 "self_attn.o_proj.weight" "mp_rank_00_000_001" -- \
    flip_record mp_rank_00_000_001/model_optim_rng.pt data/1
more=(--replicas trust)
start "$moe"
damage flip_record "$iter/mp_rank_00_000_001/model_optim_rng.pt" data/1
accepted "a replica that differs, trusted" "${more[@]}"
more=()
fault "$tied" "tied head that differs" 6 3 "output_layer.weight" "model.embed_tokens.weight" -- \
    flip_record mp_rank_00_001/model_optim_rng.pt data/23
start "$legacy"
mv "$iter/mp_rank_01" "$iter/mp_rank_09"
refused "a rank file under another number" 6 0 "tp rank 9" "tp size 4"
start "$legacy"
rm "$iter"/mp_rank_0[0-3]/*.pt
cp "$TESTS/data/$legacy"/source/iter_*/mp_rank_00/*.pt "$iter/mp_rank_00/"
refused "only the first rank's file" 3 0 "mp_rank_01"

# A file's args name the rank that wrote it.
start "$moe"
mv "$iter/mp_rank_00_000_000" "$iter/swap"
mv "$iter/mp_rank_00_001_000" "$iter/mp_rank_00_000_000"
mv "$iter/swap" "$iter/mp_rank_00_001_000"
refused "exchanged pipeline stages" 6 0 "pp is 0 in mp_rank_00_000_000/model_optim_rng.pt (its name) but 1 in" "(args): the file is not the one its place says"

# A config.json of another model.
other_config "$legacy" num_hidden_layers 3 6 "config.json" "num_hidden_layers 3" "num_layers 4"
other_config "$legacy" num_hidden_layers 5 6 "config.json" "num_hidden_layers 5" "num_layers 4"
other_config "$legacy" num_key_value_heads 2 6 "config.json" "num_key_value_heads 2" "4"
other_config "$legacy" num_attention_heads 4 6 "config.json" "num_attention_heads 4" "8"
other_config "$legacy" hidden_size 128 6 "config.json" "hidden_size 128" "64"
other_config "$legacy" intermediate_size 64 6 "config.json" "intermediate_size 64" "96"
other_config "$legacy" vocab_size 600 6 "config.json" "vocab_size 600" "512"
mend="write a number there"
other_config "$legacy" num_key_value_heads '"2"' 6 "config.json's num_key_value_heads is the text \"2\"" "$mend"
other_config "$legacy" vocab_size '"many"' 6 "config.json's vocab_size is the text \"many\"" "$mend"
other_config "$legacy" tie_word_embeddings '"no"' 6 "config.json's tie_word_embeddings is the text \"no\"" "$mend"
other_config "$legacy" num_hidden_layers '[4]' 6 "num_hidden_layers is a list or an object" "4"
other_config "$legacy" num_hidden_layers null 6 "num_hidden_layers is not there" "4"
other_config "$moe" num_local_experts 8 6 "config.json" "num_local_experts 8" "4"
other_config "$moe" num_local_experts 2 6 "config.json" "num_local_experts 2" "4"
other_config "$dist" num_hidden_layers 3 6 "config.json" "num_hidden_layers 3" "4"
other_config "$dist" model_type '"llama"' 6 "linear_qkv.bias"
# The same without args to compare with: the tensors tell.
for change in "num_hidden_layers 3 4" "num_hidden_layers 5 4" "hidden_size 128 64" "intermediate_size 64 96" \
    "vocab_size 600 512" "head_dim 16 8" "num_attention_heads 4 8"; do
    read -r field new old <<<"$change"
    start "$legacy"
    config "$field" "$new"
    for file in "$iter"/*/*.pt; do
        damage drop_args "$file"
    done
    refused "$field $new without args" 6 0 "this config.json is another model's: $field $new, the checkpoint has $old"
done
start "$dist"
rm "$iter/common.pt"
config num_hidden_layers 5
refused "a layer too few without common.pt" 6 0 "num_hidden_layers 5, the checkpoint has 4"
config num_hidden_layers 3
refused "a layer too many without common.pt" 6 0 "num_hidden_layers 3, the checkpoint has 4"
config num_hidden_layers '"many"'
refused "a number that is a text" 6 0 "config.json" "num_hidden_layers"
config num_hidden_layers -4
refused "a negative number" 6 0 "num_hidden_layers -4, the checkpoint has 4"
config num_hidden_layers 1000000000000
refused "a number out of reason" 6 0 "num_hidden_layers 1000000000000, the checkpoint has 4"

# Rows of the vocabulary are padding only where args, the rule by which the framework pads and the tokenizer agree.
for size in 1 100 250 252 502; do
    other_config "$legacy" vocab_size "$size" 6 "this config.json is another model's: vocab_size $size, the checkpoint's args say vocab_size 251"
done
more=(--vocab_size 100)
start "$legacy"
accepted "fewer rows than args say, by hand" "${more[@]}"
merge_copy 3 "${more[@]}" --report "$WORK/rows.json"
expect_code 0 "${merging[@]}"
python3 - "$target/config.json" "$WORK/rows.json" <<'P' || fail "--vocab_size 100 did not cut the rows"
import json, sys
config, report = (json.load(open(name)) for name in sys.argv[1:])
rows = {tensor["name"]: tensor["shape"][0] for tensor in report["tensors"]}
assert config["vocab_size"] == 100 and rows["model.embed_tokens.weight"] == 100 and rows["lm_head.weight"] == 100, (config, rows)
assert report["ledger"]["padding"] == 2 * 412 * 64 * 2, report["ledger"]
P
more=(--vocab_size 513)
start "$legacy"
refused "more rows than are stored, by hand" 6 0 "--vocab_size 513 does not fit: the checkpoint has 512" "correct --vocab_size or leave it out"
! grep -q "another model" "$WORK/err" || fail "config.json is blamed for --vocab_size"
more=()
start megatron_more/llama-tp12-legacy
for file in "$iter"/*/*.pt; do
    damage set_args "$file" vocab_size None
done
merge_copy 0
expect_code 0 "${merging[@]/#-q/-v}" && expect_text "37 of the 288 rows of embedding.word_embeddings.weight" && expect_text "vocab_size 251"
rm -rf "$target"
config vocab_size 250
echo '{"model": {"vocab": {"the": 0, "last": 250}}}' >"$hf/tokenizer.json"
refused "a token without its row" 6 3 "tokenizer.json has 251 tokens" "--vocab_size 250"
rm "$hf/tokenizer.json"
accepted "one row less, of which nothing tells"
config vocab_size 192
refused "more rows than padding adds" 6 0 "96 of the 288 rows" "less than 96" "--vocab_size 192"
start "$dist"
rm -f "$iter/common.pt" "$hf"/tokenizer*.json
config vocab_size 1
accepted "what tensors alone cannot tell"
config vocab_size 0
refused "no vocabulary at all" 6 3 "with vocab_size 0, 256 of the 256 rows of embedding.word_embeddings.weight would be cut off as padding, but no row would be left"

# What Python's parser refuses would be published, and no loader would take it.
start "$legacy"
cp "$hf/config.json" "$WORK/config.json"
printf '\0 and more' >>"$hf/config.json"
refused "text behind a NUL" 4 3 "config.json is not valid JSON at line"
printf '\xef\xbb\xbf' | cat - "$WORK/config.json" >"$hf/config.json"
refused "a byte order mark" 4 0 "config.json begins with a byte order mark" "save it as UTF-8 without one"

# Python writes numbers that JSON has not.
start "$legacy"
sed -i 's/"attention_dropout": 0.0/"attention_dropout": NaN, "limits": [Infinity, -Infinity, "NaN"]/' "$hf/config.json"
accepted "NaN and infinities in config.json"
merge_copy 0 --dtype fp16
expect_code 0 "${merging[@]}"
python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); assert c["dtype"] == "float16" and c["attention_dropout"] != c["attention_dropout"] and c["limits"] == [float("inf"), -float("inf"), "NaN"], c' \
    "$target/config.json" || fail "NaN and infinities are lost when config.json is edited"
rm -rf "$target"
sed -i 's/NaN,/NotANumber,/' "$hf/config.json"
refused "no number at all" 4 0 "config.json" "not valid JSON at line"

# What no shape shows: how norms are stored, and in which order rotary rows.
gemma=megatron_more/gemma-tp2-legacy
all='mp_rank_*/model_optim_rng.pt' # what only one says is another run's
start "$gemma"
accepted "norms less one in a family that has them so"
fault "$legacy" "norms less one" 5 3 "the recipe llama" "apply_layernorm_1p true" "weight - 1" "--recipe" -- set_args "$all" apply_layernorm_1p True
fault "$legacy" "norms less one, the newer name" 5 0 "layernorm_zero_centered_gamma true" -- set_args "$all" layernorm_zero_centered_gamma True
fault "$gemma" "norms that are not less one" 5 0 "the recipe gemma" "apply_layernorm_1p false" -- set_args "$all" apply_layernorm_1p False
fault "$legacy" "rotary rows in pairs" 5 0 "the recipe llama" "rotary_interleaved true" -- set_args "$all" rotary_interleaved True
start megatron/verl-qwen3-tp2-pp2-torchdist-bf16
sed -i 's/"layernorm_zero_centered_gamma": false/"layernorm_zero_centered_gamma": true/' "$source"/*/actor/transformer_config.json
refused "norms less one in transformer_config.json" 5 0 "the recipe qwen3" "layernorm_zero_centered_gamma true"

# No config.json, or none that can be read.
start "$legacy"
options=()
refused "no --hf_config" 2 3 "--hf_config" "iter_0000010"
options=(--hf_config "$WORK/nowhere")
refused "--hf_config names nothing" 2 0 "--hf_config" "$WORK/nowhere"
start "$legacy"
rm "$hf/config.json"
refused "no config.json" 2 0 "--hf_config" "hf/config.json"
printf '{"model_type": "llama",' >"$hf/config.json"
refused "cut config.json" 4 3 "hf/config.json"
printf '[1, 2]' >"$hf/config.json"
refused "an array as config.json" 4 0 "hf/config.json"
: >"$hf/config.json"
refused "empty config.json" 4 0 "hf/config.json"
python3 -c 'print("[" * 200000)' >"$hf/config.json"
refused "200000 brackets as config.json" 4 0 "hf/config.json"
start "$legacy"
config num_attention_heads
refused "a field is missing" 6 0 "config.json" "num_attention_heads"
start "$legacy"
config model_type
refused "no model_type" 6 0 "config.json" "there is no model_type" "LlamaForCausalLM"
config architectures
refused "no model_type and no architectures" 6 0 "config.json" "there is no model_type"
other_config "$legacy" model_type '"martian"' 6 "config.json" "martian" "--recipe"
start megatron_more/qwen2-tied-pp2-legacy
config tie_word_embeddings
refused "args say that head and embedding are one" 6 3 "untie_embeddings_and_output_weights false" "--tie-word-embedding"

# Value models.
start "$value"
config architectures '["Qwen3ForCausalLM"]'
accepted "a value model with the flag" --is_value_model
accepted "a value model without the flag"
more=(--is_value_model)
start "$legacy"
refused "a language model with the flag" 6 3 "the checkpoint has no value head: output_layer.weight is [512, 64], as in a language model" \
    "leave --is_value_model out"
! grep -q num_labels "$WORK/err" || fail "num_labels is blamed"
start "$dist"
refused "a torch_dist language model with the flag" 6 0 "the checkpoint has no value head" "leave --is_value_model out"
more=()
start "$legacy"
for file in "$iter"/*/*.pt; do
    damage resize "$file" output_layer.weight 2,64
done
refused "a head of some rows" 6 0 "output_layer.weight is [8, 64]; config.json (vocab_size 251) implies [at least 251, 64]" "--is_value_model"

# Warnings under --strict.
start "$legacy"
printf 'recipe mine\nextends llama\nmatch @model_type = "mine"\n' >"$WORK/my.recipe"
config model_type '"mine"'
options+=(--recipe "$WORK/my.recipe")
accepted "a recipe that was never compared"
more=(--strict)
refused "a warning under --strict" 14 3 "mine" "--strict"
more=()
finish
