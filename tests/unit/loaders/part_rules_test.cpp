// Towers, and families of which little is known.
#include <algorithm>

#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

/// A family that lets its tower pass.
Directory seeing_llama() {
    Directory model = of_family(plain_llama());
    replace_in_config(model, "LlamaForCausalLM", "LlavaForConditionalGeneration");
    model.config_text = with_field(model.config_text, R"("vision_config": {"depth": 2})");
    model.passes = {"visual.*"};
    model.needs = {"merger.norm.weight|merger.ln.weight"};
    for (const char* name : {"merger.norm.weight", "blocks.0.norm.weight", "blocks.0.norm.bias",
                             "blocks.1.norm.weight", "blocks.1.norm.bias"}) {
        tensors_of(model)[std::string("visual.") + name] = {DType::bf16, {4}};
    }
    return model;
}

TEST(LoaderCheck, towers_are_whole) {
    EXPECT_EQ(rules_of(seeing_llama(), {}), Rules{});
    for (const char* name : {"merger.norm.weight", "blocks.0.norm.bias", "blocks.1.norm.weight"}) {
        Directory model = seeing_llama();
        tensors_of(model).erase(std::string("visual.") + name);
        EXPECT_EQ(rules_of(model, {}), Rules{"parts!"}) << name;
    }
    Directory renamed = seeing_llama();
    tensors_of(renamed).erase("visual.merger.norm.weight");
    tensors_of(renamed)["visual.merger.ln.weight"] = {DType::bf16, {4}};
    EXPECT_EQ(rules_of(renamed, {}), Rules{});
    Directory shallow = seeing_llama();
    std::erase_if(tensors_of(shallow),
                  [](const auto& entry) { return entry.first.starts_with("visual.blocks.1."); });
    EXPECT_EQ(rules_of(shallow, {}), Rules{"parts!"});
    Directory blind = seeing_llama();
    std::erase_if(tensors_of(blind),
                  [](const auto& entry) { return entry.first.starts_with("visual."); });
    EXPECT_EQ(rules_of(blind, {}), Rules{"parts!"});
    // A class of text models loads no tower.
    replace_in_config(blind, "LlavaForConditionalGeneration", "LlamaForCausalLM");
    EXPECT_EQ(rules_of(blind, {}), Rules{});
}

TEST(LoaderCheck, parts_of_a_towers_layers_stand_together) {
    Directory model = seeing_llama();
    for (const char* layer : {"visual.blocks.0.", "visual.blocks.1."}) {
        for (const char* part : {"attn.qkv", "attn.proj", "mlp.fc0", "mlp.fc1", "norm1", "norm2"}) {
            tensors_of(model)[layer + std::string(part) + ".weight"] = {DType::bf16, {4, 4}};
        }
    }
    EXPECT_EQ(rules_of(model, {}), Rules{});
    for (const char* part : {"attn.qkv", "attn.proj", "mlp.fc0", "norm2"}) {
        Directory less = model;
        erase_ending(less, part + std::string(".weight"));
        EXPECT_EQ(rules_of(less, {}), Rules{"parts!"}) << part;
    }
}

TEST(LoaderCheck, what_checkpoints_may_lack_is_needed_where_models_have_it) {
    Directory model = of_family(plain_llama());
    model.needs = {"gate.fix|router.fix", "other.fix"};
    EXPECT_EQ(rules_of(model, {}), Rules{});
    const std::string name = "model.layers.1.mlp.gate.fix";
    model.expected[name] = {{8}, true, false, {}, "layer.1.router_fix"};
    EXPECT_EQ(rules_of(model, {}), Rules{"parts!"});
    tensors_of(model)[name] = {DType::f32, {8}};
    EXPECT_EQ(rules_of(model, {}), Rules{});
}

TEST(LoaderCheck, layers_of_unknown_families_are_alike) {
    Directory model = plain_llama();
    for (const char* part : {"q_proj", "k_proj"}) {
        tensors_of(model)["model.layers.2.self_attn." + std::string(part) + ".weight"] = {
            DType::bf16, {256, 256}};
    }
    replace_in_config(model, R"("num_hidden_layers": 2)", R"("num_hidden_layers": 3)");
    EXPECT_EQ(rules_of(model, {}), Rules{"parts!"});
}

TEST(LoaderCheck, says_what_it_does_not_check) {
    const auto limits = [](const Directory& model) {
        return std::ranges::count(check(model, {}), "limits", &Finding::rule);
    };
    EXPECT_EQ(limits(plain_llama()), 1);
    EXPECT_EQ(limits(of_family(plain_llama())), 0);
    EXPECT_EQ(limits(seeing_llama()), 0);
    Directory unknown_tower = seeing_llama();
    unknown_tower.needs.clear();
    EXPECT_EQ(limits(unknown_tower), 1);
}

}  // namespace
}  // namespace shardweld::loaders
