// The built-in files: what each family's smallest config is written as.
#include <algorithm>
#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "models/verification.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

using Names = std::vector<std::string>;

Names sorted(Names names) {
    std::sort(names.begin(), names.end());
    return names;
}

bool has(const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

const std::string kSizes =
    R"("hidden_size": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 3,
       "intermediate_size": 10, "vocab_size": 50, "num_hidden_layers": 1)";

TEST(Families, llama) {
    const std::string json = R"({"model_type": "llama", )" + kSizes + "}";
    const Names block = {"model.layers.0.input_layernorm.weight [8]",
                         "model.layers.0.self_attn.q_proj.weight [12, 8]",
                         "model.layers.0.self_attn.k_proj.weight [6, 8]",
                         "model.layers.0.self_attn.v_proj.weight [6, 8]",
                         "model.layers.0.self_attn.o_proj.weight [8, 12]",
                         "model.layers.0.post_attention_layernorm.weight [8]",
                         "model.layers.0.mlp.gate_proj.weight [10, 8]",
                         "model.layers.0.mlp.up_proj.weight [10, 8]",
                         "model.layers.0.mlp.down_proj.weight [8, 10]",
                         "model.embed_tokens.weight [50, 8]",
                         "model.norm.weight [8]"};
    Names expected = block;
    expected.push_back("lm_head.weight [50, 8]");
    EXPECT_EQ(sorted(built_in_names(json)), sorted(expected));
    expected.back() = "score.weight [1, 8]";
    expected.push_back("score.bias [1]");
    EXPECT_EQ(sorted(built_in_names(json, {{"value", 1}})), sorted(expected));
    EXPECT_EQ(sorted(built_in_names(R"({"tie_word_embeddings": true, "model_type": "mistral", )" +
                                    kSizes + "}")),
              sorted(block));
}

TEST(Families, gpt2_with_a_value_head_has_no_other) {
    const std::string json =
        R"({"model_type": "gpt2", "n_embd": 8, "n_head": 4, "n_layer": 1, "n_positions": 6,
            "vocab_size": 50, "tie_word_embeddings": false})";
    EXPECT_TRUE(has(built_in_names(json), "lm_head.weight [50, 8]"));
    const Names valued = built_in_names(json, {{"value", 1}});
    EXPECT_TRUE(has(valued, "score.weight [1, 8]"));
    EXPECT_FALSE(has(valued, "lm_head.weight [50, 8]"));
}

TEST(Families, dots1_has_a_bias_behind_attention_where_glm4_moe_has_none) {
    const std::string more = R"("attention_bias": true, "n_routed_experts": 1,
        "moe_intermediate_size": 5, "n_shared_experts": 1, )" +
                             kSizes + "}";
    const std::string bias = "model.layers.0.self_attn.o_proj.bias [8]";
    EXPECT_TRUE(has(built_in_names(R"({"model_type": "dots1", )" + more), bias));
    EXPECT_FALSE(has(built_in_names(R"({"model_type": "glm4_moe", )" + more), bias));
}

TEST(Families, llama_biases_follow_the_config) {
    const Names names = built_in_names(
        R"({"model_type": "llama", "attention_bias": true, "mlp_bias": true, )" + kSizes + "}");
    for (const char* name :
         {"self_attn.q_proj.bias [12]", "self_attn.k_proj.bias [6]", "self_attn.v_proj.bias [6]",
          "self_attn.o_proj.bias [8]", "mlp.gate_proj.bias [10]", "mlp.up_proj.bias [10]",
          "mlp.down_proj.bias [8]"}) {
        EXPECT_TRUE(has(names, "model.layers.0." + std::string(name))) << name;
    }
    EXPECT_EQ(names.size(), 19U);
}

TEST(Families, gemma_is_tied_by_default) {
    EXPECT_FALSE(has(built_in_names(R"({"model_type": "gemma", )" + kSizes + "}"),
                     "lm_head.weight [50, 8]"));
    EXPECT_TRUE(has(
        built_in_names(R"({"model_type": "gemma", "tie_word_embeddings": false, )" + kSizes + "}"),
        "lm_head.weight [50, 8]"));
}

TEST(Families, head_size_that_config_leaves_out_is_that_of_the_class) {
    const auto names_of = [](const std::string& type) {
        return built_in_names(R"({"model_type": ")" + type + R"(", "hidden_size": 8,
            "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 10,
            "vocab_size": 50, "num_hidden_layers": 1, "num_experts": 2,
            "moe_intermediate_size": 5})");
    };
    EXPECT_TRUE(has(names_of("qwen3"), "model.layers.0.self_attn.k_proj.weight [256, 8]"));
    EXPECT_TRUE(has(names_of("gemma"), "model.layers.0.self_attn.k_proj.weight [512, 8]"));
    EXPECT_TRUE(has(names_of("qwen3_moe"), "model.layers.0.self_attn.k_proj.weight [4, 8]"));
}

TEST(Families, qwen2_has_biases_but_none_on_the_output) {
    const Names names = built_in_names(R"({"model_type": "qwen2", )" + kSizes + "}");
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.q_proj.bias [12]"));
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.v_proj.bias [6]"));
    EXPECT_EQ(names.size(), 15U);
}

Names moe_names(const std::string& more, const std::string& experts = "num_experts") {
    return built_in_names(
        R"({"model_type": "qwen3_moe", "hidden_size": 8, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 3, "intermediate_size": 10, "vocab_size": 50,
            "moe_intermediate_size": 5, ")" +
        experts + "\": 2" + more + "}");
}

TEST(Families, qwen3_moe) {
    const Names expected = {"model.layers.0.input_layernorm.weight [8]",
                            "model.layers.0.self_attn.q_proj.weight [12, 8]",
                            "model.layers.0.self_attn.k_proj.weight [6, 8]",
                            "model.layers.0.self_attn.v_proj.weight [6, 8]",
                            "model.layers.0.self_attn.o_proj.weight [8, 12]",
                            "model.layers.0.self_attn.q_norm.weight [3]",
                            "model.layers.0.self_attn.k_norm.weight [3]",
                            "model.layers.0.post_attention_layernorm.weight [8]",
                            "model.layers.0.mlp.gate.weight [2, 8]",
                            "model.layers.0.mlp.experts.0.gate_proj.weight [5, 8]",
                            "model.layers.0.mlp.experts.0.up_proj.weight [5, 8]",
                            "model.layers.0.mlp.experts.0.down_proj.weight [8, 5]",
                            "model.layers.0.mlp.experts.1.gate_proj.weight [5, 8]",
                            "model.layers.0.mlp.experts.1.up_proj.weight [5, 8]",
                            "model.layers.0.mlp.experts.1.down_proj.weight [8, 5]",
                            "model.embed_tokens.weight [50, 8]",
                            "model.norm.weight [8]",
                            "lm_head.weight [50, 8]"};
    EXPECT_EQ(sorted(moe_names(R"(, "num_hidden_layers": 1)")), sorted(expected));
}

/// Layers of a list of names that are dense.
std::set<Index> dense_layers(const Names& names) {
    std::set<Index> layers;
    const Pattern dense = Pattern::parse("model.layers.{l}.mlp.up_proj.weight");
    for (const std::string& name : names) {
        if (const auto captures = dense.match(name.substr(0, name.find(' ')))) {
            layers.insert(captures->at("l"));
        }
    }
    return layers;
}

// transformers 5.24 writes the name of other families alone.
TEST(Families, qwen3_moe_counts_experts_under_either_name) {
    const std::string layers = R"(, "num_hidden_layers": 1)";
    EXPECT_EQ(moe_names(layers, "num_local_experts"), moe_names(layers));
}

TEST(Families, qwen3_moe_dense_layers) {
    const Names names = moe_names(
        R"(, "num_hidden_layers": 6, "mlp_only_layers": [1, 2], "decoder_sparse_step": 2)");
    EXPECT_EQ(dense_layers(names), (std::set<Index>{0, 1, 2, 4}));
    EXPECT_TRUE(has(names, "model.layers.3.mlp.gate.weight [2, 8]"));
    EXPECT_FALSE(has(names, "model.layers.1.mlp.gate.weight [2, 8]"));
    EXPECT_EQ(dense_layers(moe_names(R"(, "num_hidden_layers": 3, "decoder_sparse_step": 3)")),
              (std::set<Index>{0, 1}));
}

TEST(Families, qwen2_moe_has_a_gated_shared_expert) {
    const Names names = built_in_names(
        R"({"model_type": "qwen2_moe", "moe_intermediate_size": 5, "num_experts": 2,
            "shared_expert_intermediate_size": 6, )" +
        kSizes + "}");
    for (const char* name :
         {"shared_expert.gate_proj.weight [6, 8]", "shared_expert.up_proj.weight [6, 8]",
          "shared_expert.down_proj.weight [8, 6]", "shared_expert_gate.weight [1, 8]",
          "gate.weight [2, 8]"}) {
        EXPECT_TRUE(has(names, "model.layers.0.mlp." + std::string(name))) << name;
    }
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.k_proj.bias [6]"));
    EXPECT_EQ(names.size(), 23U);
}

TEST(Families, mixtral) {
    const Names names =
        built_in_names(R"({"model_type": "mixtral", "num_local_experts": 2, )" + kSizes + "}");
    EXPECT_TRUE(has(names, "model.layers.0.block_sparse_moe.gate.weight [2, 8]"));
    EXPECT_TRUE(has(names, "model.layers.0.block_sparse_moe.experts.1.w1.weight [10, 8]"));
    EXPECT_TRUE(has(names, "model.layers.0.block_sparse_moe.experts.1.w2.weight [8, 10]"));
    EXPECT_TRUE(has(names, "model.layers.0.block_sparse_moe.experts.0.w3.weight [10, 8]"));
    EXPECT_EQ(names.size(), 16U);
}

std::string deepseek(const std::string& more) {
    return R"({"model_type": "deepseek_v3", "hidden_size": 8, "num_attention_heads": 2,
        "num_key_value_heads": 2, "intermediate_size": 10, "vocab_size": 50,
        "num_hidden_layers": 2, "first_k_dense_replace": 1, "kv_lora_rank": 5,
        "qk_nope_head_dim": 3, "qk_rope_head_dim": 2, "v_head_dim": 4, "moe_intermediate_size": 6,
        "n_routed_experts": 1, "n_shared_experts": 2)" +
           more + "}";
}

Names deepseek_layer(const std::string& layer, const Names& queries, const Names& mlp) {
    Names names = {
        "input_layernorm.weight [8]",          "self_attn.kv_a_proj_with_mqa.weight [7, 8]",
        "self_attn.kv_a_layernorm.weight [5]", "self_attn.kv_b_proj.weight [14, 5]",
        "self_attn.o_proj.weight [8, 8]",      "post_attention_layernorm.weight [8]"};
    names.insert(names.end(), queries.begin(), queries.end());
    names.insert(names.end(), mlp.begin(), mlp.end());
    for (std::string& name : names) {
        name = "model.layers." + layer + "." + name;
    }
    return names;
}

TEST(Families, deepseek_with_mtp) {
    const Names queries = {"self_attn.q_a_proj.weight [9, 8]", "self_attn.q_a_layernorm.weight [9]",
                           "self_attn.q_b_proj.weight [10, 9]"};
    const Names dense = {"mlp.gate_proj.weight [10, 8]", "mlp.up_proj.weight [10, 8]",
                         "mlp.down_proj.weight [8, 10]"};
    const Names sparse = {"mlp.gate.weight [1, 8]",
                          "mlp.gate.e_score_correction_bias [1]",
                          "mlp.experts.0.gate_proj.weight [6, 8]",
                          "mlp.experts.0.up_proj.weight [6, 8]",
                          "mlp.experts.0.down_proj.weight [8, 6]",
                          "mlp.shared_experts.gate_proj.weight [12, 8]",
                          "mlp.shared_experts.up_proj.weight [12, 8]",
                          "mlp.shared_experts.down_proj.weight [8, 12]"};
    Names expected = {"model.embed_tokens.weight [50, 8]",
                      "model.norm.weight [8]",
                      "lm_head.weight [50, 8]",
                      "model.layers.2.enorm.weight [8]",
                      "model.layers.2.hnorm.weight [8]",
                      "model.layers.2.eh_proj.weight [8, 16]",
                      "model.layers.2.shared_head.norm.weight [8]"};
    for (const Names& layer :
         {deepseek_layer("0", queries, dense), deepseek_layer("1", queries, sparse),
          deepseek_layer("2", queries, sparse)}) {
        expected.insert(expected.end(), layer.begin(), layer.end());
    }
    EXPECT_EQ(
        sorted(built_in_names(deepseek(R"(, "q_lora_rank": 9, "num_nextn_predict_layers": 1)"))),
        sorted(expected));
}

TEST(Families, deepseek_without_query_latent_and_with_layer_frequency) {
    const Names names = built_in_names(deepseek(R"(, "q_lora_rank": null, "moe_layer_freq": 2)"));
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.q_proj.weight [10, 8]"));
    EXPECT_FALSE(has(names, "model.layers.0.self_attn.q_a_layernorm.weight [0]"));
    EXPECT_EQ(dense_layers(names), (std::set<Index>{0, 1}));
}

TEST(Families, kinds_of_layers_that_a_config_lists_win) {
    const auto config = [](const std::string& type, const std::string& more) {
        return R"({"model_type": ")" + type + R"(", "num_hidden_layers": 3, "hidden_size": 8,
            "num_attention_heads": 2, "intermediate_size": 10, "vocab_size": 50,
            "kv_lora_rank": 5, "q_lora_rank": 4, "qk_nope_head_dim": 3, "qk_rope_head_dim": 2,
            "v_head_dim": 4, "moe_intermediate_size": 6, "n_routed_experts": 1,
            "index_n_heads": 2, "index_head_dim": 4)" +
               more + "}";
    };
    const std::string list = R"(, "mlp_layer_types": ["sparse", "dense", "sparse"])";
    for (const char* type : {"glm4_moe_lite", "glm_moe_dsa", "deepseek_v32"}) {
        const auto tree_names = [&](const std::string& more) {
            const RecipeLibrary library = RecipeLibrary::load();
            const Config one = config_of(config(type, more));
            const Recipe& recipe = recipe_for(library, one);
            return hub_names(recipe,
                             Symbols(recipe, *library.find_dialect("hf_module"), one, {}, {}));
        };
        EXPECT_EQ(dense_layers(tree_names(list)), (std::set<Index>{1})) << type;
        EXPECT_EQ(dense_layers(tree_names(list + R"(, "first_k_dense_replace": 3)")),
                  (std::set<Index>{1}))
            << type;
        // An MTP layer stands behind the list.
        EXPECT_EQ(dense_layers(tree_names(list + R"(, "num_nextn_predict_layers": 1)")),
                  (std::set<Index>{1}))
            << type;
        EXPECT_EQ(dense_layers(tree_names(R"(, "first_k_dense_replace": 2)")),
                  (std::set<Index>{0, 1}))
            << type;
    }
    EXPECT_EQ(dense_layers(built_in_names(config("glm4_moe_lite", ""))), (std::set<Index>{0}));
}

TEST(Families, deepseek_lines_say_what_is_optional_and_kept) {
    const RecipeLibrary library = RecipeLibrary::load();
    for (const Line& line : library.find_recipe("deepseek_v3")->hub) {
        const bool is_bias = line.logical.ends_with("router_fix");
        EXPECT_EQ(line.keep.has_value(), is_bias) << line.name.text;
        EXPECT_EQ(line.optional,
                  is_bias || line.logical.starts_with("mtp.") || line.logical == "score_bias")
            << line.name.text;
    }
}

TEST(Families, qwen3_next_has_one_mtp_layer_with_attention_and_experts) {
    const std::string sizes =
        R"({"model_type": "qwen3_next", "hidden_size": 8, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 3, "intermediate_size": 10, "vocab_size": 50,
            "num_hidden_layers": 2, "full_attention_interval": 4, "mlp_only_layers": [0],
            "num_experts": 2, "moe_intermediate_size": 5, "shared_expert_intermediate_size": 6,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 3,
            "linear_value_head_dim": 5, "linear_conv_kernel_dim": 4)";
    const Names names = built_in_names(sizes + "}");
    for (const char* name : {"mtp.fc.weight [8, 16]", "mtp.pre_fc_norm_embedding.weight [8]",
                             "mtp.pre_fc_norm_hidden.weight [8]", "mtp.norm.weight [8]",
                             "mtp.layers.0.self_attn.q_proj.weight [24, 8]",
                             "mtp.layers.0.mlp.experts.1.up_proj.weight [5, 8]",
                             "mtp.layers.0.mlp.shared_expert_gate.weight [1, 8]",
                             "model.layers.1.linear_attn.in_proj_ba.weight [8, 8]"}) {
        EXPECT_TRUE(has(names, name)) << name;
    }
    EXPECT_FALSE(has(names, "mtp.layers.0.mlp.up_proj.weight [10, 8]"));
    EXPECT_FALSE(has(names, "mtp.layers.0.linear_attn.A_log [4]"));
    EXPECT_EQ(dense_layers(names), (std::set<Index>{0}));
    // How a second one would be stored is not known.
    EXPECT_FALSE(
        has(built_in_names(sizes + R"(, "num_nextn_predict_layers": 2})"), "mtp.norm.weight [16]"));
}

/// What a recipe keeps in F32 of its recurrent layers, without the layer's name.
std::set<std::string> kept_of(const std::string& recipe) {
    const RecipeLibrary library = RecipeLibrary::load();
    std::set<std::string> names;
    for (const Line& line : library.find_recipe(recipe)->hub) {
        const std::string& name = line.name.text;
        for (const std::string part : {"attn.", "attention.", "mixer.", "mamba."}) {
            const std::size_t at = name.find(part);
            if (line.keep && at != std::string::npos &&
                line.logical.find("router") == std::string::npos) {
                names.insert(name.substr(at + part.size()));
            }
        }
    }
    return names;
}

TEST(Families, precision_of_recurrent_layers_is_that_of_released_models) {
    using Kept = std::set<std::string>;
    EXPECT_EQ(kept_of("qwen3_5"), (Kept{"A_log", "norm.weight"}));
    EXPECT_EQ(kept_of("qwen3_5_vl"), (Kept{"A_log", "norm.weight"}));
    EXPECT_EQ(kept_of("nemotron_h"), (Kept{"A_log", "D", "dt_bias"}));
    EXPECT_EQ(kept_of("kimi_linear"), (Kept{"A_log", "dt_bias"}));
    EXPECT_EQ(kept_of("bailing_hybrid"),
              (Kept{"A_log", "dt_bias", "q_conv1d.weight", "k_conv1d.weight", "v_conv1d.weight"}));
    for (const char* other :
         {"qwen3_next", "falcon_h1", "bamba", "jamba", "granitemoehybrid", "lfm2", "mamba2"}) {
        EXPECT_EQ(kept_of(other), Kept()) << other;
    }
}

TEST(Families, gpt_oss_keeps_experts_in_one_tensor) {
    const Names names =
        built_in_names(R"({"model_type": "gpt_oss", "num_local_experts": 3, )" + kSizes + "}");
    EXPECT_TRUE(has(names, "model.layers.0.mlp.experts.gate_up_proj [3, 8, 20]"));
    EXPECT_TRUE(has(names, "model.layers.0.mlp.experts.down_proj_bias [3, 8]"));
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.sinks [4]"));
    EXPECT_TRUE(has(names, "model.layers.0.self_attn.o_proj.bias [8]"));
}

TEST(Families, vision_language_models_have_text_lines_under_the_hubs_prefix) {
    const std::string text = R"(", "text_config": {)" + kSizes + "}}";
    const Names qwen3 = built_in_names(R"({"model_type": "qwen3_vl)" + text);
    EXPECT_TRUE(has(qwen3, "model.language_model.layers.0.self_attn.q_norm.weight [3]"));
    EXPECT_TRUE(has(qwen3, "model.language_model.embed_tokens.weight [50, 8]"));
    EXPECT_TRUE(has(qwen3, "lm_head.weight [50, 8]"));
    const Names gemma = built_in_names(R"({"model_type": "gemma3)" + text);
    EXPECT_TRUE(has(gemma, "language_model.model.layers.0.post_feedforward_layernorm.weight [8]"));
    EXPECT_FALSE(has(gemma, "language_model.lm_head.weight [50, 8]"));
}

TEST(Families, those_that_megatron_does_not_train_say_so) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Dialect& megatron = *library.find_dialect("megatron_core");
    const Dialect& tree = *library.find_dialect("hf_module");
    for (const char* name : {"cohere", "minimax", "llava"}) {
        EXPECT_FALSE(library.can_meet(*library.find_recipe(name), megatron)) << name;
        EXPECT_TRUE(library.can_meet(*library.find_recipe(name), tree)) << name;
    }
    for (const char* name :
         {"gemma", "gemma2", "gemma3_text", "phi3", "glm", "glm4", "glm4_moe", "glm4_moe_lite",
          "qwen3_next", "qwen3_5", "exaone4", "nemotron", "gpt2"}) {
        EXPECT_TRUE(library.can_meet(*library.find_recipe(name), megatron)) << name;
    }
    for (const char* name : {"qwen2_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5_vl", "qwen2_audio"}) {
        EXPECT_TRUE(library.can_meet(*library.find_recipe(name), megatron)) << name;
    }
}

TEST(Families, fit_every_dialect_that_they_can_meet) {
    const RecipeLibrary library = RecipeLibrary::load();
    EXPECT_GT(library.recipes().size(), 30U);
    EXPECT_NO_THROW(library.check_meetings());
}

TEST(Families, verified_ones_name_fixtures_that_are_there) {
    std::set<std::string> fixtures;
    for (const auto& kind : std::filesystem::directory_iterator(SHARDWELD_TEST_DATA)) {
        for (const auto& one : std::filesystem::directory_iterator(kind)) {
            fixtures.insert(one.path().filename());
        }
    }
    std::set<std::string> named;
    const RecipeLibrary library = RecipeLibrary::load();
    for (const Recipe* recipe : library.recipes()) {
        for (const Verification& one : verifications_of(*recipe)) {
            for (const std::string& name : one.by) {
                // tests/support/make_families.py makes models of a table, of other classes too:
                // "transformers/llama.LlamaModel".
                const std::string kMade = "transformers/";
                const bool is_made = name.starts_with(kMade);
                const std::string own = is_made ? name.substr(kMade.size()) : name;
                const std::string of_class = own.substr(0, own.rfind('.'));
                EXPECT_TRUE(fixtures.contains(own) || fixtures.contains(own + ".json") ||
                            (is_made && fixtures.contains(of_class + ".json")))
                    << recipe->name << " was checked against " << name;
                named.insert(name);
            }
        }
    }
    EXPECT_GT(named.size(), 40U);
    EXPECT_EQ(verification_in(*library.find_recipe("qwen3"), "torchtitan", false).by,
              std::vector<std::string>{"torchtitan_qwen3"});
}

}  // namespace
}  // namespace shardweld::models
