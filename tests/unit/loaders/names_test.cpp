// Names and shapes against those of the family, and heads.
#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

TEST(LoaderCheck, holds_names_against_those_of_the_family) {
    const Request request{Loader::transformers, 1, 1};
    const std::string norm = "model.layers.1.input_layernorm.weight";
    for (const Directory& whole : {plain_llama(), block_llama(), packed_llama()}) {
        Directory model = of_family(whole);
        EXPECT_EQ(rules_of(model, request), Rules{});
        tensors_of(model)[norm].shape = {255};
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        tensors_of(model).erase(norm);
        EXPECT_EQ(rules_of(model, request), Rules{"names!"});
        model.expected[norm].is_optional = true;
        EXPECT_EQ(rules_of(model, request), Rules{});
        tensors_of(model)["model.layers.1.mlp.gate.bias"] = {DType::bf16, {8}};
        EXPECT_EQ(rules_of(model, request), Rules{"names"});
        model.passes = {"*.bias"};
        EXPECT_EQ(rules_of(model, request), Rules{});
    }
    // Layers that config.json does not count.
    Directory further = of_family(plain_llama());
    replace_in_config(further, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 1)");
    std::erase_if(further.expected,
                  [](const auto& one) { return one.first.find("layers.1.") != std::string::npos; });
    EXPECT_EQ(rules_of(further, request), Rules{"names!"});
    // Other names altogether.
    Directory renamed = of_family(plain_llama());
    tensors_of(renamed).clear();
    tensors_of(renamed)["transformer.wte.weight"] = {DType::bf16, {40, 256}};
    tensors_of(renamed)["lm_head.weight"] = {DType::bf16, {40, 256}};
    EXPECT_EQ(rules_of(renamed, request), (Rules{"names!", "names"}));
    // transformers takes names without the base model's prefix.
    Directory bare = of_family(plain_llama());
    std::map<std::string, StoredTensor> names;
    for (const auto& [name, tensor] : tensors_of(bare)) {
        names[name.starts_with("model.") ? name.substr(6) : name] = tensor;
    }
    tensors_of(bare) = names;
    EXPECT_EQ(rules_of(bare, request), Rules{});
    EXPECT_EQ(rules_of(bare, {Loader::vllm, 1, 1}), (Rules{"names!", "names"}));
}

TEST(LoaderCheck, shapes_are_whole) {
    const std::map<std::string, std::vector<Index>> others = {
        {"model.layers.0.input_layernorm.weight", {}},
        {"model.layers.0.self_attn.q_proj.weight", {}},
        {"model.layers.0.self_attn.k_proj.weight", {1, 256, 256}},
        {"model.embed_tokens.weight", {40, 255}},
        {"model.embed_tokens.weight", {}},
        {"lm_head.weight", {}}};
    for (const auto& [name, shape] : others) {
        Directory model = of_family(plain_llama());
        tensors_of(model)[name].shape = shape;
        EXPECT_EQ(rules_of(model, {}), Rules{"names!"}) << name;
        EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"names!"}) << name;
    }
}

TEST(LoaderCheck, a_tied_head_is_the_embedding) {
    Directory model = plain_llama();
    replace_in_config(model, R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)");
    for (const bool is_equal : {true, false}) {
        model.equal = [&](const std::string& one, const std::string& other) {
            EXPECT_EQ(one + " " + other, "lm_head.weight model.embed_tokens.weight");
            return is_equal;
        };
        EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{"head"});
        for (const Loader loader : {Loader::vllm, Loader::sglang, Loader::tgi}) {
            EXPECT_EQ(rules_of(model, {loader, 1, 1}), Rules{is_equal ? "head" : "head!"});
        }
    }
    // The head alone: transformers ties the embedding to it.
    Directory alone = of_family(plain_llama());
    replace_in_config(alone, R"("tie_word_embeddings": false)", R"("tie_word_embeddings": true)");
    alone.expected.erase("lm_head.weight");
    tensors_of(alone).erase("model.embed_tokens.weight");
    EXPECT_EQ(rules_of(alone, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(alone, {Loader::vllm, 1, 1}), Rules{"names!"});
}

TEST(LoaderCheck, optional_tensors_are_there_together) {
    Directory model = of_family(plain_llama());
    for (const std::string layer : {"0", "1"}) {
        for (const std::string end : {"weight", "bias"}) {
            model.expected["model.layers." + layer + ".norm." + end] = {
                {256}, true, false, {}, "layer." + layer + ".norm_" + end};
        }
    }
    EXPECT_EQ(rules_of(model, {}), Rules{});
    const StoredTensor norm{DType::bf16, {256}};
    tensors_of(model)["model.layers.0.norm.weight"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});  // of the other layer, and the bias
    tensors_of(model)["model.layers.1.norm.weight"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
    tensors_of(model)["model.layers.0.norm.bias"] = norm;
    tensors_of(model)["model.layers.1.norm.bias"] = norm;
    EXPECT_EQ(rules_of(model, {}), Rules{});
    // Numbers of one digit and of two.
    for (const std::string layer : {"9", "10", "11"}) {
        const std::string name = "model.layers." + layer + ".norm.gain";
        model.expected[name] = {{256}, true, false, {}, "layer." + layer + ".norm_gain"};
        tensors_of(model)[name] = norm;
    }
    tensors_of(model).erase("model.layers.9.norm.gain");
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
}

TEST(LoaderCheck, a_config_of_which_a_family_makes_nothing_is_told) {
    Directory model = plain_llama();
    model.family = "llama";
    model.fault = "h = @hidden_size has no value";
    EXPECT_EQ(rules_of(model, {}), Rules{"names!"});
    model.fault = "d = @head_dim has no value";  // where a class's default may be meant
    EXPECT_EQ(rules_of(model, {}), Rules{"names"});
}

TEST(LoaderCheck, classification_models_have_a_row_for_each_label) {
    Directory model = plain_llama();
    replace_in_config(model, "LlamaForCausalLM", "LlamaForSequenceClassification");
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier!"});
    tensors_of(model)["score.weight"] = {DType::bf16, {3, 256}};
    EXPECT_EQ(rules_of(model, {}), Rules{});
    model.config_text = with_field(model.config_text, R"("id2label": {"0": "a", "1": "b"})");
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier!"});
    tensors_of(model)["score.weight"].shape = {2, 256};
    replace_in_config(model, "LlamaForSequence", "LlamaForToken");
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier"});
    tensors_of(model)["score.bias"] = {DType::bf16, {2}};
    EXPECT_EQ(rules_of(model, {}), Rules{});
    tensors_of(model).erase("score.weight");
    tensors_of(model)["classifier.weight"] = {DType::bf16, {2, 256}};
    EXPECT_EQ(rules_of(model, {}), Rules{"classifier!"});
}

}  // namespace
}  // namespace shardweld::loaders
