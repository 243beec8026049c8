#!/usr/bin/env python3
"""llama_cpp.py make DIR: small models of families with a GGUF template, with tokenizers, in DIR/NAME.
llama_cpp.py compare DIR OUT: OUT/NAME/model-*.gguf, read with gguf-py and loaded by llama.cpp (xllamacpp), against transformers on DIR/NAME:
tensors' names and values, tokens of a text, log-probabilities of the next token.
Needs torch, transformers, tokenizers; compare also gguf and xllamacpp."""
import json
import pathlib
import sys
import urllib.request

import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = "The quick brown fox, it's 12345 naive cafés!\n\n  shard 数字 🦙"
LINES = ["The quick brown fox jumps over the lazy dog. It's 12345 o'clock!\n\n", "Weights are welded, shard by shard; nothing is lost.",
         "naïve café — déjà vu? 数字 42"] * 20
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace("{1,3}", "")
SIZES = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=256)
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64}
# By name: class, kind of tokenizer, what its config has beside SIZES.
FAMILIES = {
    "llama": ("Llama", LLAMA3, dict(rope_parameters=LLAMA3_ROPE)),
    "llama_pieces": ("Llama", None, {}),
    "mixtral": ("Mixtral", LLAMA3, dict(num_local_experts=4)),
    "qwen2": ("Qwen2", QWEN2, {}),
    "qwen3": ("Qwen3", QWEN2, dict(head_dim=32)),
    "qwen3_moe": ("Qwen3Moe", QWEN2, dict(head_dim=32, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True)),
    "qwen2_moe": ("Qwen2Moe", QWEN2, dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=96)),
    "gemma": ("Gemma", None, dict(head_dim=32)),
    "gemma2": ("Gemma2", None, dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=128)),
    "gemma3": ("Gemma3", None, dict(head_dim=32, query_pre_attn_scalar=32, sliding_window=128)),
    "deepseek_v3": ("DeepseekV3", LLAMA3, dict(num_key_value_heads=4, moe_intermediate_size=64, q_lora_rank=64, kv_lora_rank=64,
                                               qk_rope_head_dim=32, qk_nope_head_dim=32, v_head_dim=32, n_routed_experts=8, n_shared_experts=1,
                                               n_group=2, topk_group=1, num_experts_per_tok=2, first_k_dense_replace=1)),
    # Without a latent for queries llama.cpp takes 27 layers only.
    "deepseek_v2": ("DeepseekV2", LLAMA3, dict(num_hidden_layers=27, num_key_value_heads=4, moe_intermediate_size=64, q_lora_rank=None,
                                               kv_lora_rank=64, qk_rope_head_dim=32, qk_nope_head_dim=32, v_head_dim=32, n_routed_experts=4, n_shared_experts=1,
                                               num_experts_per_tok=2, first_k_dense_replace=1)),
    "yarn": ("Qwen2", QWEN2, dict(rope_parameters={"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0,
                                                   "original_max_position_embeddings": 64})),
}


def of_bytes(expression):
    """Byte-level BPE, words split by a regular expression."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(expression), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=512, special_tokens=["<|begin|>", "<|end|>"],
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return finished(tokenizer, "<|begin|>", "<|end|>")


def of_pieces(prepends):
    """BPE as it is made of SentencePiece's: bytes have tokens of their own."""
    special = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    space = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if prepends else space
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokens = special + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=600, special_tokens=tokens))
    text = json.loads(tokenizer.to_str())
    text["added_tokens"] = [token for token in text["added_tokens"] if token["content"] in special]
    return finished(Tokenizer.from_str(json.dumps(text)), "<s>", "</s>", unk_token="<unk>")


def finished(tokenizer, begin, end, **special):
    tokenizer.post_processor = processors.TemplateProcessing(single=f"{begin} $A", pair=f"{begin} $A {begin} $B",
                                                             special_tokens=[(begin, tokenizer.token_to_id(begin))])
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=begin, eos_token=end, **special,
                                                chat_template="{% for m in messages %}{{m['content']}}{% endfor %}")


def make(directory):
    torch.manual_seed(0)
    for name, (family, expression, more) in FAMILIES.items():
        tokenizer = of_bytes(expression) if expression else of_pieces(prepends=family == "Llama")
        config = getattr(transformers, family + ("TextConfig" if family == "Gemma3" else "Config"))
        special = dict(bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id)
        # One row more than tokens: such rows are filled up.
        model = getattr(transformers, family + "ForCausalLM")(config(**SIZES | special | more, vocab_size=len(tokenizer) + 1))
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(4) if weight.dim() > 1 else weight.add_(torch.randn_like(weight) * 0.1)
        model.to(torch.bfloat16).save_pretrained(directory / name)
        tokenizer.save_pretrained(directory / name)


class LlamaCpp:
    """llama.cpp's server on a model, on the loopback interface."""

    def __init__(self, path):
        import xllamacpp
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = 256
        params.n_parallel = 1
        params.warmup = False
        self.server = xllamacpp.Server(params)

    def ask(self, what, **question):
        request = urllib.request.Request(self.server.listening_address + what, json.dumps(question).encode(),
                                         {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())


def worst_difference(server, model, ids):
    """Between log-probabilities of all next tokens; None where llama.cpp keeps the token back, as it does parts of letters."""
    answer = server.ask("/completion", prompt=ids, n_predict=1, temperature=-1, n_probs=model.config.vocab_size, cache_prompt=False)
    if "completion_probabilities" not in answer:
        return None
    with torch.no_grad():
        expected = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1], -1)
    found = {entry["id"]: entry["logprob"] for entry in answer["completion_probabilities"][0]["top_logprobs"]}
    assert len(found) > len(expected) // 2
    return max(abs(float(expected[i]) - value) for i, value in found.items() if value > -50)


def read_with_gguf_py(path, model, kind):
    import gguf
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    embedding = tensors["token_embd.weight"]
    assert embedding.tensor_type.name == kind.upper(), embedding.tensor_type
    values = torch.from_numpy(gguf.quants.dequantize(embedding.data, embedding.tensor_type))
    expected = model.get_input_embeddings().weight.float()
    assert values.shape == expected.shape
    assert (values - expected).abs().max() <= expected.abs().max() / (1e6 if kind == "bf16" else 200)
    assert all(tensors[name].tensor_type.name == "F32" for name in tensors if name.endswith("norm.weight"))


def compare(directory, out):
    bad = 0
    for name in FAMILIES:
        (path,) = (out / name).glob("*.gguf")
        kind = path.stem.removeprefix("model-")
        model = transformers.AutoModelForCausalLM.from_pretrained(directory / name, dtype=torch.float32)
        ids = transformers.AutoTokenizer.from_pretrained(directory / name)(TEXT)["input_ids"]
        read_with_gguf_py(path, model, kind)
        server = LlamaCpp(path)
        tokens = server.ask("/tokenize", content=TEXT, add_special=True)["tokens"]
        found = [worst_difference(server, model, ids[:n]) for n in range(2, len(ids), 3)]
        worst = [value for value in found if value is not None]
        # llama.cpp rounds activations in each layer.
        limit = (0.05 if kind == "bf16" else 0.5) * max(1, model.config.num_hidden_layers / 5)
        is_good = tokens == ids and len(worst) >= 3 and max(worst) < limit
        bad += 0 if is_good else 1
        print(f"{name} {kind}: tokens {'equal' if tokens == ids else f'{tokens} instead of {ids}'}; {len(worst)} next tokens, log-probabilities "
              f"differ by up to {max(worst):.4f}{'' if is_good else ': FAILED'}")
    return 1 if bad else 0


if __name__ == "__main__":
    paths = [pathlib.Path(text) for text in sys.argv[2:]]
    sys.exit(make(*paths) if sys.argv[1] == "make" else compare(*paths))
