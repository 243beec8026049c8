// The built-in files: what each family's smallest config is written as.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include <gtest/gtest.h>

#include "models/verification.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

using Names = std::vector<std::string>;
using Facts = std::map<std::string, Index>;

bool has(const Names& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
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

TEST(Families, names_and_shapes_follow_the_config) {
    std::ifstream file(SHARDWELD_TEST_DATA "/../unit/models/families.txt");
    std::map<std::string, std::string> lets;
    std::string config;
    Names names;
    Names before;
    int n_held = 0;
    for (std::string line; std::getline(file, line);) {
        if (line.empty() || line.starts_with('#')) {
            continue;
        }
        for (auto let = lets.rbegin(); let != lets.rend(); ++let) {  // the longer name first
            line = replaced(line, "$" + let->first, let->second);
        }
        const std::string verb = line.substr(0, line.find(' '));
        const std::string rest = line.substr(verb.size() + 1);
        ++n_held;
        if (verb == "let") {
            lets[rest.substr(0, rest.find(' '))] = rest.substr(rest.find(' ') + 1);
        } else if (verb == "config" || verb == "valued") {
            config = rest;
            before = std::exchange(
                names, built_in_names(rest, verb == "config" ? Facts{} : Facts{{"value", 1}}));
        } else if (verb == "count" || verb == "same") {
            EXPECT_EQ(names.size(), std::stoul(rest)) << config;
            EXPECT_TRUE(verb == "count" || names == before) << config;
        } else if (verb == "dense") {
            std::istringstream numbers(rest);
            const std::set<Index> layers{std::istream_iterator<Index>(numbers), {}};
            EXPECT_EQ(dense_layers(names), layers) << config;
        } else {
            for (const std::string_view part : split(rest, ';')) {
                const std::string name = replaced(std::string(trim(part)), "~", "model.layers.0.");
                for (const char* layer : {"model.layers.1.", "model.layers.2."}) {
                    EXPECT_EQ(has(names, replaced(name, "@", layer)), verb == "has")
                        << config << name;
                }
            }
        }
    }
    EXPECT_EQ(n_held, 101);
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
