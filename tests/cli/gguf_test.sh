#!/usr/bin/env bash
# --quantize gguf:... from outside: types, shapes and bytes of every tensor as gguf-py writes them (tests/data/quant/*/gguf.json), the same
# file at any number of ranks and with both strategies, its keys, other input formats, what is refused.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
source "$(dirname "${BASH_SOURCE[0]}")/merge_cases.sh"
data="$TESTS/data/quant"

# written DIR OUT TYPE RANKS [options]
written() {
    local dir="$1" out="$2" type="$3" ranks="$4"
    shift 4
    local launcher=()
    ((ranks == 1)) || launcher=(mpirun -n "$ranks")
    expect_code 0 "${launcher[@]}" "$SHARDWELD" merge --local_dir "$dir" --target_dir "$out" --quantize "gguf:$type" -q --no_fsync --overwrite "$@"
}

# same_file A B
same_file() {
    cmp "$1" "$2" || fail "$1 and $2 differ"
}

# Every type.
for model in llama128 llama192 qwen3moe128; do
    for type in q8_0 q5_0 q5_1 q4_0 q4_1 f16 bf16; do
        ways_of 1 2 3 ${SHARDWELD_ALL_WAYS:+5 8}
        for way in "${ways[@]}"; do
            read -r ranks strategy <<<"$way"
            written "$data/$model/input" "$WORK/model" "$type" "$ranks" --backend hf --strategy "$strategy"
            python3 "$TESTS/cli/gguf_file.py" "$WORK/model/model-$type.gguf" "$data/$model/gguf.json" "gguf:$type" >"$WORK/compare" ||
                fail "$model $type: $(cat "$WORK/compare")"
        done
    done
done

# Shards of every family with a template: the file of the merged model, and the one that is made with it.
for case in "torch/fsdp1_w2_fp32_llama 2" "megatron/llama-tp4-legacy-bf16 3" "torch/plain_w1_bf16_mixtral 1" "torch/fsdp2_tp_2x2_bf16_qwen2 3" "torch/fsdp2_w2_dim2_qwen3moe 2" \
    "torch/plain_w1_bf16_gemma3 2" "megatron_families/gemma2-tp2-torchdist-bf16 2" "megatron_more/gemma-tp2-legacy 1" \
    "megatron/deepseekv3-mtp-pp2-torchdist-bf16 2" "megatron_more/qwen2moe-tp2-ep2-legacy 1"; do
    read -r name ranks <<<"$case"
    rm -rf "$WORK/once" "$WORK/twice" "$WORK/plain" "$WORK/beside"
    merge_case "$TESTS/data/$name" "$WORK/once" "$ranks" --dtype bf16 --quantize gguf:bf16
    merge_case "$TESTS/data/$name" "$WORK/plain" "$ranks" --dtype bf16 --also "$WORK/beside:gguf:bf16"
    same_file "$WORK/once/model-bf16.gguf" "$WORK/beside/model-bf16.gguf"
    written "$WORK/plain" "$WORK/twice" bf16 1 --backend hf
    same_file "$WORK/once/model-bf16.gguf" "$WORK/twice/model-bf16.gguf"
    case "$name" in
    *gemma2*) gemma="$WORK/gemma" && cp -r "$WORK/twice" "$gemma" && cp "$WORK/plain/model.safetensors" "$gemma" ;;
    *deepseek*) deepseek="$WORK/deepseek" && cp -r "$WORK/twice" "$deepseek" && cp "$WORK/plain/model.safetensors" "$deepseek" ;;
    esac
done

# What a family says of its tokenizer stands in the place of what the tokenizer's files say.
cat >"$WORK/tokenizer.json" <<'EOF_JSON'
{"normalizer": {"type": "Prepend", "prepend": "▁"},
 "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<unk>": 0, "a": 1, "▁a": 2}, "merges": ["▁ a"]}}
EOF_JSON
for case in "megatron_families/gemma2-tp2-torchdist-bf16 False" "megatron/llama-tp4-legacy-bf16 True"; do
    read -r name prefix <<<"$case"
    rm -rf "$WORK/spaced" "$WORK/spaced_hf"
    mkdir "$WORK/spaced_hf"
    cp "$TESTS/data/$name/hf/config.json" "$WORK/tokenizer.json" "$WORK/spaced_hf/"
    written "$TESTS/data/$name/source" "$WORK/spaced" bf16 1 --hf_config "$WORK/spaced_hf"
    py "$WORK/spaced/model-bf16.gguf" "$prefix" <<'EOF_PYTHON' || fail "$name: a space before the first word"
import sys
import gguf_file
found = gguf_file.read(sys.argv[1])[0]["tokenizer.ggml.add_space_prefix"]
assert str(found) == sys.argv[2], found
EOF_PYTHON
done

# What is no copy of whole rows: Gemma's norms plus 1, DeepSeek's up-projection in two parts.
py "$gemma" "$deepseek" <<'EOF_PYTHON' || fail "norms or up-projections"
import hashlib, json, pathlib, struct, sys
import edit_safetensors, gguf_file

def models(directory):
    tensors = edit_safetensors.read(directory)
    return lambda name: bytes(tensors[name][2]), gguf_file.read(pathlib.Path(directory) / "model-bf16.gguf")[1]

def require(tensor, kind, shape, raw):
    assert tensor == [kind, shape, hashlib.sha256(raw).hexdigest()], (tensor, kind, shape)

stored, written = models(sys.argv[1])
raw = stored("model.layers.1.post_feedforward_layernorm.weight")
weights = [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
require(written["blk.1.post_ffw_norm.weight"], "F32", [len(weights)], struct.pack(f"<{len(weights)}f", *(w + 1 for w in weights)))

config = json.loads((pathlib.Path(sys.argv[2]) / "config.json").read_text())
n, k, v, rank = (config[name] for name in ("num_attention_heads", "qk_nope_head_dim", "v_head_dim", "kv_lora_rank"))
stored, written = models(sys.argv[2])
raw = stored("model.layers.0.self_attn.kv_b_proj.weight")
at = lambda row, column: raw[2 * (row * rank + column):][:2]
keys = b"".join(at(head * (k + v) + row, column) for head in range(n) for column in range(rank) for row in range(k))
values = b"".join(at(head * (k + v) + k + row, column) for head in range(n) for row in range(v) for column in range(rank))
require(written["blk.0.attn_k_b.weight"], "BF16", [n, rank, k], keys)
require(written["blk.0.attn_v_b.weight"], "BF16", [n, v, rank], values)
assert not any(name.startswith(f"blk.{config['num_hidden_layers']}.") for name in written)
EOF_PYTHON

# The tokenizer beside config.json, which one rank reads, is in the file that another may make.
llama="$TESTS/data/megatron/llama-tp4-legacy-bf16"
cp -r "$llama/hf" "$WORK/hf"
python3 - "$WORK/hf/tokenizer.json" <<'EOF_PYTHON'
import json, sys
words = {"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5}
special = [{"id": number, "content": word, "special": True} for word, number in words.items() if number < 3]
json.dump({"added_tokens": special, "model": {"type": "BPE", "byte_fallback": True, "vocab": words, "merges": ["a b"]}}, open(sys.argv[1], "w"))
EOF_PYTHON
for ranks in 1 3; do
    written "$llama/source" "$WORK/tokens$ranks" q8_0 "$ranks" --hf_config "$WORK/hf"
done
same_file "$WORK/tokens1/model-q8_0.gguf" "$WORK/tokens3/model-q8_0.gguf"
python3 "$TESTS/cli/gguf_file.py" "$WORK/tokens3/model-q8_0.gguf" | python3 -c '
import json, sys
keys = json.load(sys.stdin)["keys"]
tokens = keys["tokenizer.ggml.tokens"]
assert keys["tokenizer.ggml.model"] == "llama" and len(tokens) == keys["llama.vocab_size"] and tokens[:7] == ["<unk>", "<s>", "</s>", "a", "b", "ab", "[PAD6]"]
assert keys["tokenizer.ggml.scores"][3:7] == [0, 0, -1, -10000] and keys["tokenizer.ggml.token_type"][:7] == [3, 3, 3, 1, 1, 1, 5], keys
' || fail "tokenizer"

# Keys from config.json, in the order of llama.cpp's converter; Llama 3's rotary factors as a tensor.
cp -r "$data/llama128/input" "$WORK/llama3"
python3 - "$WORK/llama3/config.json" <<'EOF_PYTHON'
import json, sys
config = json.load(open(sys.argv[1]))
config["rope_parameters"] = {"rope_theta": 500000.0, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192}
config["_name_or_path"] = "some-lab/llama-3-tiny"
json.dump(config, open(sys.argv[1], "w"))
EOF_PYTHON
written "$WORK/llama3" "$WORK/model" q8_0 2 --backend hf --report "$WORK/report.json"
python3 "$TESTS/cli/gguf_file.py" "$WORK/model/model-q8_0.gguf" | python3 -c '
import json, sys
found = json.load(sys.stdin)
keys = found["keys"]
assert list(keys)[:5] == ["general.architecture", "general.type", "general.name", "general.size_label", "llama.block_count"], list(keys)
assert (keys["general.name"], keys["general.size_label"]) == ("Llama 3 Tiny", "152K"), keys
assert keys["general.file_type"] == 7 and keys["llama.rope.freq_base"] == 500000 and keys["general.quantization_version"] == 2, keys
assert found["tensors"]["rope_freqs.weight"][:2] == ["F32", [64]]
' || fail "keys"

# What is written can be checked: header and report, and whether llama.cpp would load it.
expect_code 0 "$SHARDWELD" verify "$WORK/model" --report "$WORK/report.json" -q
expect_code 14 "$SHARDWELD" check "$WORK/model" --target llama.cpp
grep -q "no tokenizer" "$WORK/out" || fail "check without a tokenizer: $(<"$WORK/out")"
expect_code 0 "$SHARDWELD" check "$WORK/tokens1" --target llama.cpp
cp "$WORK/model/model-q8_0.gguf" "$WORK/whole"
python3 -c 'import sys; data = bytearray(open(sys.argv[1], "rb").read()); data[-5000] ^= 1; open(sys.argv[1], "wb").write(data)' "$WORK/model/model-q8_0.gguf"
expect_code 13 mpirun -n 2 "$SHARDWELD" verify "$WORK/model" --report "$WORK/report.json" -q
head -c 150000 "$WORK/whole" >"$WORK/model/model-q8_0.gguf"
expect_code 4 "$SHARDWELD" verify "$WORK/model" -q
expect_text "cut short"
expect_code 14 "$SHARDWELD" check "$WORK/model" --target llama.cpp

# Refused, before anything is written: families without a template, by name; values without a code; options that do not go together.
expect_code 5 "$SHARDWELD" merge --local_dir "$TESTS/data/megatron_families/phi3-tp2-torchdist-bf16/source" --hf_config \
    "$TESTS/data/megatron_families/phi3-tp2-torchdist-bf16/hf" --target_dir "$WORK/none" --quantize gguf:q8_0
expect_text "no GGUF template for the family phi3"
expect_absent "$WORK/none"
python3 "$TESTS/support/edit_safetensors.py" "$WORK/llama3/model.safetensors" put model.layers.0.self_attn.q_proj.weight 1000 807f
expect_code 5 mpirun -n 2 "$SHARDWELD" merge --backend hf --local_dir "$WORK/llama3" --target_dir "$WORK/none" --quantize gguf:q4_0 -q
expect_text "tensor blk.0.attn_q.weight"
expect_text "an infinity cannot be quantised"
expect_absent "$WORK/none"
expect_code 2 "$SHARDWELD" merge --local_dir "$WORK/llama3" --target_dir "$WORK/none" --output_format gguf && expect_text "--quantize gguf:q8_0"
expect_code 2 "$SHARDWELD" merge --local_dir "$WORK/llama3" --target_dir "$WORK/none" --quantize gguf:q8_0 --max_shard_size 1GB
expect_code 5 "$SHARDWELD" merge --local_dir "$TESTS/data/torch/fsdp2_lora_w2_fp32_qwen2/source" --target_dir "$WORK/none" --quantize gguf:q8_0
expect_text "LoRA"
finish
