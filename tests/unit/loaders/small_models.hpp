// Small models whose directories load everywhere, and ways to harm them.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "loaders/check.hpp"

namespace shardweld::loaders {

inline constexpr const char* kPlainConfig =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 40,
        "tie_word_embeddings": false})";

/// `config` with a field of JSON put in front of its others.
inline std::string with_field(std::string config, const std::string& field) {
    return config.insert(1, field + ", ");
}

inline std::map<std::string, StoredTensor>& tensors_of(Directory& model) {
    return model.weights.front().tensors;
}

inline Directory plain_llama() {
    Directory model;
    model.config_text = kPlainConfig;
    model.generation_text = "{}";
    model.weights = {{"model.safetensors", "", {}}};
    model.files = {"config.json", "model.safetensors", "tokenizer.json", "generation_config.json",
                   "tokenizer_config.json"};
    model.tokenizer.is_there = true;
    model.tokenizer.n_tokens = 40;
    model.tokenizer.config_text = R"({"chat_template": "{{ x }}"})";
    tensors_of(model)["model.embed_tokens.weight"] = {DType::bf16, {40, 256}};
    tensors_of(model)["lm_head.weight"] = {DType::bf16, {40, 256}};
    for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
        const auto add = [&](const std::string& name, Index rows, Index columns) {
            tensors_of(model)[layer + name + ".weight"] = {DType::bf16, {rows, columns}};
        };
        add("self_attn.q_proj", 256, 256);
        add("self_attn.k_proj", 256, 256);
        add("self_attn.v_proj", 256, 256);
        add("self_attn.o_proj", 256, 256);
        add("mlp.gate_proj", 512, 256);
        add("mlp.up_proj", 512, 256);
        add("mlp.down_proj", 256, 512);
        tensors_of(model)[layer + std::string("input_layernorm.weight")] = {DType::bf16, {256}};
    }
    return model;
}

inline bool is_projection(const std::string& name) {
    return name.ends_with("_proj.weight");
}

/// The same with every projection in fp8, and a scale for each block of 128 x 128.
inline Directory block_llama() {
    Directory model = plain_llama();
    model.config_text = with_field(
        kPlainConfig,
        R"("quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128],
           "modules_to_not_convert": ["lm_head", "model.embed_tokens"]})");
    Directory plain = plain_llama();
    for (auto& [name, tensor] : tensors_of(plain)) {
        if (is_projection(name)) {
            tensors_of(model)[name].dtype = DType::f8_e4m3;
            tensors_of(model)[name + "_scale_inv"] = {
                DType::f32, {(tensor.shape[0] + 127) / 128, (tensor.shape[1] + 127) / 128}};
        }
    }
    return model;
}

/// The same with weights of four bits, 128 to a scale, in words of 32 bits.
inline Directory packed_llama() {
    Directory model = plain_llama();
    model.config_text = with_field(
        kPlainConfig,
        R"("quantization_config": {"quant_method": "compressed-tensors", "quantization_status":
           "compressed", "ignore": ["lm_head"], "config_groups": {"group_0": {"weights":
           {"num_bits": 4, "strategy": "group", "group_size": 128}}}})");
    Directory plain = plain_llama();
    for (auto& [name, tensor] : tensors_of(plain)) {
        if (is_projection(name)) {
            tensors_of(model).erase(name);
            tensors_of(model)[name + "_packed"] = {DType::i32,
                                                   {tensor.shape[0], tensor.shape[1] / 8}};
            tensors_of(model)[name + "_scale"] = {DType::bf16,
                                                  {tensor.shape[0], tensor.shape[1] / 128}};
            tensors_of(model)[name + "_shape"] = {DType::i64, {2}};
        }
    }
    return model;
}

inline void replace_in_config(Directory& model, const std::string& from, const std::string& to) {
    const std::size_t at = model.config_text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    model.config_text.replace(at, from.size(), to);
}

/// "tokens!" of each finding, the mark for fatal ones; without what is said to be unchecked.
inline std::vector<std::string> rules_of(const Directory& model, const Request& request) {
    std::vector<std::string> rules;
    for (const Finding& finding : check(model, request)) {
        EXPECT_FALSE(finding.hint.empty()) << finding.rule;
        if (finding.rule != "limits") {
            rules.push_back(finding.rule + (finding.is_fatal ? "!" : ""));
        }
    }
    return rules;
}

using Rules = std::vector<std::string>;

inline void erase_ending(Directory& model, const std::string& ending) {
    std::erase_if(tensors_of(model),
                  [&](const auto& entry) { return entry.first.ends_with(ending); });
}

/// The tensors of a plain Llama are what its family has.
inline Directory of_family(Directory model) {
    model.family = "llama";
    Directory plain = plain_llama();
    for (const auto& [name, tensor] : tensors_of(plain)) {
        model.expected[name] = {tensor.shape, false, is_projection(name), {}, "layer.0.x"};
    }
    model.expected["model.embed_tokens.weight"].logical = "embed";
    model.expected["lm_head.weight"].logical = "head";
    return model;
}

}  // namespace shardweld::loaders
