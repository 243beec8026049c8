#include "models/claims.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

using Claims = std::map<std::string, std::string>;

ClaimCheck checked(const std::string& json, const Claims& claims) {
    return check_claims(*RecipeLibrary::load().find_dialect("megatron_core"), config_of(json),
                        claims);
}

std::vector<std::string> disagreements(const std::string& json, const Claims& claims) {
    return checked(json, claims).contradictions;
}

constexpr const char* kLlama = R"({"model_type": "llama", "num_hidden_layers": 4,
    "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": 96,
    "vocab_size": 251, "rope_parameters": {"rope_theta": 10000.0}})";

const Claims kArgs = {{"num_layers", "4"},          {"hidden_size", "64"},
                      {"num_attention_heads", "8"}, {"group_query_attention", "true"},
                      {"num_query_groups", "4"},    {"ffn_hidden_size", "96"},
                      {"kv_channels", "8"},         {"padded_vocab_size", "256"},
                      {"rotary_base", "10000"}};

Claims changed(Claims claims, const Claims& changes) {
    for (const auto& [name, value] : changes) {
        claims[name] = value;
    }
    return claims;
}

TEST(Claims, say_nothing_when_both_sides_agree) {
    EXPECT_EQ(disagreements(kLlama, kArgs), std::vector<std::string>());
    EXPECT_EQ(disagreements(kLlama, {}), std::vector<std::string>());
    EXPECT_EQ(disagreements("{}", kArgs), std::vector<std::string>());
}

TEST(Claims, name_each_disagreement) {
    EXPECT_EQ(disagreements(kLlama, changed(kArgs, {{"num_layers", "6"},
                                                    {"num_query_groups", "2"},
                                                    {"kv_channels", "16"},
                                                    {"ffn_hidden_size", "95"},
                                                    {"padded_vocab_size", "250"},
                                                    {"rotary_base", "10000.5"}})),
              (std::vector<std::string>{
                  "config.json says num_hidden_layers 4, the checkpoint's args say num_layers 6",
                  "config.json says num_key_value_heads 4, the checkpoint's args say "
                  "num_query_groups 2",
                  "config.json says hidden_size / num_attention_heads 8, the checkpoint's args say "
                  "kv_channels 16",
                  "config.json says intermediate_size 96, the checkpoint's args say "
                  "ffn_hidden_size 95",
                  "config.json says vocab_size 251, the checkpoint's args say padded_vocab_size "
                  "only 250",
                  "config.json says rope_parameters.rope_theta 10000, the checkpoint's args say "
                  "rotary_base 10000.5"}));
}

TEST(Claims, the_vocabulary_is_the_runs_where_its_tokenizer_was_told_it) {
    const auto said = [](const Claims& changes) {
        return disagreements(kLlama, changed(kArgs, changes)).size();
    };
    EXPECT_EQ(said({{"vocab_size", "251"}}), 0U);
    EXPECT_EQ(said({{"vocab_size", "250"}}), 1U);
    EXPECT_EQ(said({{"vocab_size", "252"}}), 1U);
    EXPECT_EQ(said({{"vocab_size", "250"}, {"tokenizer_type", "NullTokenizer"}}), 0U);
    EXPECT_EQ(said({{"vocab_size", "251"}, {"tokenizer_type", "NullTokenizer"}}), 0U);
    EXPECT_EQ(said({{"vocab_size", "249"}, {"tokenizer_type", "NullTokenizer"}}), 1U);
    EXPECT_EQ(said({{"vocab_size", "200"}, {"tokenizer_type", "HuggingFaceTokenizer"}}), 0U);
    const Claims other = changed(kArgs, {{"vocab_size", "100"}, {"padded_vocab_size", "128"}});
    EXPECT_EQ(check_claims(*RecipeLibrary::load().find_dialect("megatron_core"), config_of(kLlama),
                           other, {"vocab_size"})
                  .contradictions,
              std::vector<std::string>());
}

TEST(Claims, numbers_compare_as_numbers) {
    EXPECT_EQ(disagreements(R"({"rope_theta": 500000.0})", {{"rotary_base", "500000.0"}}),
              std::vector<std::string>());
    EXPECT_EQ(disagreements(R"({"rope_theta": 0.5})", {{"rotary_base", "0.5"}}),
              std::vector<std::string>());
}

TEST(Claims, that_cannot_be_compared_are_said) {
    const std::string json = R"({"rope_theta": 1000000, "num_hidden_layers": 4})";
    for (const char* text : {"half", "some Class", "[1, 2]", "[]"}) {
        const ClaimCheck check = checked(json, {{"rotary_base", text}});
        EXPECT_EQ(check.contradictions, std::vector<std::string>()) << text;
        EXPECT_EQ(check.unread,
                  std::vector<std::string>{"rotary_base is '" + std::string(text) + "'"});
    }
    // Gemma 3 has an angle for each kind of layer.
    EXPECT_EQ(checked(json, {{"rotary_base", "[10000, 1000000.0]"}}).unread,
              std::vector<std::string>());
}

TEST(Claims, query_groups_count_only_when_they_are_used) {
    EXPECT_EQ(disagreements(R"({"num_attention_heads": 8})",
                            {{"group_query_attention", "false"}, {"num_query_groups", "1"}}),
              std::vector<std::string>());
    EXPECT_EQ(disagreements(R"({"num_attention_heads": 8})", {{"num_query_groups", "4"}}),
              (std::vector<std::string>{"config.json says num_attention_heads 8, the checkpoint's "
                                        "args say num_query_groups 4"}));
}

TEST(Claims, feed_forward_size_of_experts_is_not_that_of_dense_layers) {
    const std::string moe = R"({"model_type": "qwen3_moe", "intermediate_size": 96,
        "moe_intermediate_size": 32, "num_experts": 4})";
    EXPECT_EQ(
        disagreements(
            moe, {{"num_experts", "4"}, {"ffn_hidden_size", "1"}, {"moe_ffn_hidden_size", "32"}}),
        std::vector<std::string>());
    EXPECT_EQ(disagreements(moe, {{"num_moe_experts", "8"}, {"moe_ffn_hidden_size", "33"}}),
              (std::vector<std::string>{
                  "config.json says num_experts 4, the checkpoint's args say num_moe_experts 8",
                  "config.json says moe_intermediate_size 32, the checkpoint's args say "
                  "moe_ffn_hidden_size 33"}));
    EXPECT_EQ(disagreements(R"({"model_type": "mixtral", "intermediate_size": 32})",
                            {{"num_experts", "4"}, {"moe_ffn_hidden_size", "31"}}),
              (std::vector<std::string>{"config.json says intermediate_size 32, the checkpoint's "
                                        "args say moe_ffn_hidden_size 31"}));
}

TEST(Claims, latent_attention_has_its_own_sizes) {
    EXPECT_EQ(disagreements(R"({"kv_lora_rank": 16, "q_lora_rank": null, "head_dim": 4,
                                "num_key_value_heads": 4, "v_head_dim": 12})",
                            {{"kv_channels", "128"},
                             {"num_query_groups", "1"},
                             {"kv_lora_rank", "17"},
                             {"q_lora_rank", "24"},
                             {"v_head_dim", "12"}}),
              (std::vector<std::string>{
                  "config.json says kv_lora_rank 16, the checkpoint's args say kv_lora_rank 17"}));
    // Megatron's arguments hold a default for models without latent attention.
    EXPECT_EQ(disagreements(kLlama, {{"kv_lora_rank", "32"}, {"v_head_dim", "128"}}),
              std::vector<std::string>());
}

TEST(Claims, gated_delta_net_has_sizes_of_equal_products) {
    EXPECT_EQ(disagreements(R"({"linear_num_key_heads": 4, "linear_key_head_dim": 8})",
                            {{"linear_num_key_heads", "8"},
                             {"linear_key_head_dim", "4"},
                             {"experimental_attention_variant", "gated_delta_net"}}),
              (std::vector<std::string>{
                  "config.json says linear_num_key_heads 4, the checkpoint's args say "
                  "linear_num_key_heads 8",
                  "config.json says linear_key_head_dim 8, the checkpoint's args say "
                  "linear_key_head_dim 4"}));
    // Megatron's arguments hold defaults for models without such layers.
    EXPECT_EQ(disagreements(R"({"linear_num_key_heads": 4})", {{"linear_num_key_heads", "16"}}),
              std::vector<std::string>());
}

TEST(Claims, speak_of_fields_and_claims_only) {
    EXPECT_EQ(error_of_load({toy_dialect("claim h = hidden_size\n")}),
              "usage: toy.dialect:9: column 1: a claim may only use '@fields' and '$names', not "
              "'h'");
    EXPECT_EQ(error_of_load({toy_dialect("claim @h = 3\n")}),
              "usage: toy.dialect:9: column 12: expected a name the checkpoint states, found '3'");
}

}  // namespace
}  // namespace shardweld::models
