#include "core/names/config_fields.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld {
namespace {

TEST(TrainedClass, loses_what_wrappers_put_before_it) {
    EXPECT_EQ(trained_class("FSDPQwen2ForCausalLM"), "Qwen2ForCausalLM");
    EXPECT_EQ(trained_class("FSDPParametrizedLlamaModel"), "LlamaModel");
    EXPECT_EQ(trained_class("DDPGPT2LMHeadModel"), "GPT2LMHeadModel");
    for (const char* own : {"Qwen2ForCausalLM", "FSDPModule", "FSDP", "FSDPx", "DPTModel"}) {
        EXPECT_EQ(trained_class(own), own);
    }
    EXPECT_TRUE(is_wrapper_class("PeftModelForCausalLM"));
    EXPECT_FALSE(is_wrapper_class("Qwen2ForCausalLM"));
}

TEST(PredictsFurtherTokens, goes_by_the_parts_of_a_name) {
    for (const char* one : {"mtp.layers.0.mlp.up_proj.weight", "model.mtp_block.0.norm.weight",
                            "model.mtp.layers.2.enorm.weight", "model.layers.61.eh_proj.weight"}) {
        EXPECT_TRUE(predicts_further_tokens(one)) << one;
    }
    EXPECT_FALSE(predicts_further_tokens("model.layers.0.mlp.smtp.weight"));
}

TEST(StackLayerOf, is_that_of_the_language_model) {
    EXPECT_EQ(stack_layer_of("model.layers.3.mlp.vision_experts.0.weight"), 3);
    EXPECT_EQ(stack_layer_of("transformer.h.11.ln_1.weight"), 11);
    for (const char* other : {"model.visual.blocks.3.x", "audio_tower.layers.3.x", "mtp.layers.0.x",
                              "vision_model.encoder.layers.4.x", "model.norm.weight"}) {
        EXPECT_EQ(stack_layer_of(other), std::nullopt) << other;
    }
}

TEST(GroupOf, prefers_names_to_expressions_and_these_to_classes) {
    const std::vector<std::vector<std::string>> groups = {
        {"Linear"}, {"re:.*self_attn.*", "re:.*down_proj$"}, {"model.layers.1.mlp.down_proj"}};
    EXPECT_EQ(group_of("model.layers.0.mlp.up_proj", groups), 0U);
    EXPECT_EQ(group_of("model.layers.0.self_attn.q_proj", groups), 1U);
    EXPECT_EQ(group_of("model.layers.0.mlp.down_proj", groups), 1U);
    EXPECT_EQ(group_of("model.layers.1.mlp.down_proj", groups), 2U);
}

TEST(GroupOf, guesses_nothing) {
    EXPECT_EQ(group_of("a.q_proj", {{"re:.*mlp.*"}, {"re:.*k_proj"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {{"re:.*q_proj"}, {"re:a.*"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {{"Linear"}, {"LinearBase"}, {"re:.*q_proj"}}), 2U);
    // From the beginning, as Python's re.match.
    EXPECT_EQ(group_of("a.q_proj", {{"re:q_proj"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {}), std::nullopt);
    EXPECT_THROW(group_of("a", {{"re:(?!x)"}}), Error);
}

}  // namespace
}  // namespace shardweld
