// Which line of the Megatron dialect takes a stored name, in its various forms.
#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

/// "logical : layout" of the lines that take a name of that many dims, joined by " / ".
std::string lines_for(const std::string& json, const std::map<std::string, Index>& facts,
                      const std::string& name, std::size_t n_dims) {
    static const RecipeLibrary library = RecipeLibrary::load();
    const Config config = config_of(json);
    const Recipe& recipe = recipe_for(library, config);
    const Dialect& dialect = *library.find_dialect("megatron_core");
    const Symbols symbols(recipe, dialect, config, facts, {});
    std::string found;
    for (const Line& line : dialect.store) {
        const auto captures = line.name.match(name);
        if (captures && line.layout.dims.size() == n_dims &&
            symbols.holds(line.condition, *captures)) {
            found += (found.empty() ? "" : " / ") + line.logical + " : " + line.layout.text;
        }
    }
    return found;
}

const std::string kLlamaConfig = R"({"model_type": "llama", "num_attention_heads": 4})";
const std::string kGrouped =
    R"({"model_type": "llama", "num_attention_heads": 4, "num_key_value_heads": 2})";
const std::string kMoe = R"({"model_type": "qwen3_moe", "num_attention_heads": 4})";
const std::string kDeepseek = R"({"model_type": "deepseek_v3", "num_attention_heads": 4})";

TEST(MegatronDialect, layers_by_number_and_stacked) {
    EXPECT_EQ(lines_for(kLlamaConfig, {}, "decoder.layers.3.self_attention.linear_qkv.weight", 2),
              "layer.{l}.qkv : (g [q: p d | k: d | v: d]) h");
    EXPECT_EQ(lines_for(kLlamaConfig, {}, "decoder.layers.self_attention.linear_qkv.weight", 3),
              "layer.{l}.qkv : l (g [q: p d | k: d | v: d]) h");
    EXPECT_EQ(lines_for(kLlamaConfig, {}, "decoder.layers.0.input_layernorm.weight", 1),
              "layer.{l}.attn_norm : h");
    EXPECT_EQ(lines_for(kLlamaConfig, {}, "decoder.layers.0.mlp.linear_fc1.weight_w", 2),
              "layer.{l}.fc1 : gate: (t f) h");
}

TEST(MegatronDialect, experts_in_all_forms) {
    const std::string at = "decoder.layers.3.mlp.experts.";
    const std::string fused = "layer.{l}.fc1_e : (te [gate: fe | up: fe]) h";
    EXPECT_EQ(lines_for(kMoe, {}, at + "local_experts.2.linear_fc1.weight", 2), fused);
    EXPECT_EQ(lines_for(kMoe, {}, at + "linear_fc1.weight2", 2), fused);
    EXPECT_EQ(lines_for(kMoe, {}, at + "linear_fc1.weight2_v", 2),
              "layer.{l}.fc1_e : up: (te fe) h");
    EXPECT_EQ(lines_for(kMoe, {}, at + "experts.2.linear_fc1.weight_w", 2),
              "layer.{l}.fc1_e : gate: (te fe) h");
    EXPECT_EQ(lines_for(kMoe, {}, at + "experts.linear_fc1.weight", 3),
              "layer.{l}.fc1_e : e [gate: te fe | up: te fe] h");
    EXPECT_EQ(lines_for(kMoe, {}, "decoder.layers.mlp.experts.experts.linear_fc1.weight", 4),
              "layer.{l}.fc1_e : l e [gate: te fe | up: te fe] h");
    EXPECT_EQ(lines_for(kMoe, {}, at + "weight2", 2), "layer.{l}.fc2_e : te (e fe h)");
}

TEST(MegatronDialect, latent_attention_decides_what_a_norm_is) {
    const std::string name = "decoder.layers.0.self_attention.q_layernorm.weight";
    EXPECT_EQ(lines_for(kMoe, {}, name, 1), "layer.{l}.q_norm : d");
    EXPECT_EQ(lines_for(kDeepseek, {}, name, 1), "layer.{l}.q_a_norm : rq");
    EXPECT_EQ(lines_for(kDeepseek, {}, "decoder.layers.0.self_attention.linear_proj.weight", 2),
              "layer.{l}.attn_out : h (n dv)");
}

TEST(MegatronDialect, experts_of_one_projection) {
    const std::string json = R"({"model_type": "nemotron", "num_attention_heads": 4})";
    const std::string at = "decoder.layers.3.mlp.";
    EXPECT_EQ(lines_for(json, {}, at + "experts.linear_fc1.weight2", 2),
              "layer.{l}.fc1_e : up: (te fe) he");
    EXPECT_EQ(lines_for(json, {}, at + "experts.weight1", 2),
              "layer.{l}.fc1_e : te (e he [up: fe])");
    EXPECT_EQ(lines_for(json, {}, at + "shared_experts.linear_fc1.weight", 2),
              "layer.{l}.shared_fc1 : up: (t fs) h");
}

TEST(MegatronDialect, mamba_in_parts_and_whole) {
    const std::string at = "decoder.layers.0.mixer.";
    EXPECT_EQ(lines_for(kLlamaConfig, {}, at + "conv1d.weight", 3),
              "layer.{l}.mamba_conv : (t [x: nm hm | B: ng ds | C: ng ds]) one c");
    for (const char* name : {"mixer.conv1d_weight", "mamba_mixer.conv1d.weight"}) {
        EXPECT_EQ(lines_for(kLlamaConfig, {}, "decoder.layers.0." + std::string(name), 3),
                  lines_for(kLlamaConfig, {}, at + "conv1d.weight", 3));
    }
    EXPECT_EQ(lines_for(kLlamaConfig, {}, at + "in_proj.weight.dt", 2),
              "layer.{l}.mamba_in : dt: (t nm) h");
    EXPECT_EQ(lines_for(kLlamaConfig, {}, at + "conv1d.bias.B", 1),
              "layer.{l}.mamba_conv_bias : B: (t ng ds)");
}

TEST(MegatronDialect, mtp_layers_under_both_names) {
    for (const char* inner : {"transformer_layer", "mtp_model_layer"}) {
        EXPECT_EQ(lines_for(kDeepseek, {},
                            "mtp.layers.0." + std::string(inner) + ".mlp.router.weight", 2),
                  "mtp.{k}.router : e h");
    }
    EXPECT_EQ(lines_for(kDeepseek, {}, "mtp.layers.0.eh_proj.weight", 2),
              "mtp.{k}.proj : h [token: h1 | hidden: h2]");
}

TEST(MegatronDialect, old_names_depend_on_the_checkpoint_version) {
    const std::string name = "language_model.transformer.layers.1.attention.query_key_value.weight";
    EXPECT_EQ(lines_for(kLlamaConfig, {}, name, 2), "layer.{l}.qkv : (g [q: p d | k: d | v: d]) h");
    EXPECT_EQ(lines_for(kLlamaConfig, {{"version", 1}}, name, 2),
              "layer.{l}.qkv : (g d [q: p | k: | v: ]) h");
    EXPECT_EQ(lines_for(kLlamaConfig, {{"version", 0}}, name, 2),
              "layer.{l}.qkv : (t [q: gt p d | k: gt d | v: gt d]) h");
    EXPECT_EQ(lines_for(kGrouped, {{"version", 2}}, name, 2),
              "layer.{l}.qkv : (g [q: p d | k: d | v: d]) h");
    EXPECT_EQ(lines_for(kGrouped, {{"version", 1}}, name, 2), "");
    EXPECT_EQ(lines_for(kGrouped, {{"version", 0}}, name, 2), "");
    EXPECT_EQ(
        lines_for(kLlamaConfig, {}, "language_model.encoder.layers.1.mlp.dense_4h_to_h.weight", 2),
        "layer.{l}.fc2 : h (t f)");
    EXPECT_EQ(lines_for(kLlamaConfig, {}, "word_embeddings_for_head.weight", 2),
              "head : [v: vocab | pad: *] h");
}

TEST(MegatronDialect, heads_of_a_rank_make_up_all_heads) {
    const RecipeLibrary library = RecipeLibrary::load();
    EXPECT_EQ(library.find_dialect("megatron_core")->fuse.at("g"),
              (std::vector<std::string>{"t", "gt"}));
    const Config config = config_of(kLlamaConfig);
    const Symbols symbols(*library.find_recipe("llama"), *library.find_dialect("megatron_core"),
                          config, {{"t", 2}}, {});
    EXPECT_EQ(symbols.value("gt"), 2);
}

}  // namespace
}  // namespace shardweld::models
