// What config.json says by itself.
#include <algorithm>

#include <gtest/gtest.h>

#include "small_models.hpp"

namespace shardweld::loaders {
namespace {

TEST(LoaderCheck, only_rust_refuses_infinity) {
    Directory model = plain_llama();
    model.config_text = with_field(model.config_text, R"("limit": Infinity)");
    EXPECT_EQ(rules_of(model, {Loader::transformers, 1, 1}), Rules{});
    EXPECT_EQ(rules_of(model, {Loader::tgi, 1, 1}), Rules{"numbers!"});
    model.config_text = with_field(model.config_text, R"("scale": [NaN])");
    EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"numbers"});
}

TEST(LoaderCheck, models_compute_with_numbers) {
    for (const char* field :
         {R"("rms_norm_eps": NaN)", R"("rms_norm_eps": Infinity)", R"("rope_theta": NaN)",
          R"("ssm_multipliers": [1.0, NaN])", R"("text_config": {"logits_scaling": NaN})"}) {
        Directory model = plain_llama();
        model.config_text = with_field(model.config_text, field);
        EXPECT_EQ(rules_of(model, {}), Rules{"numbers!"}) << field;
        EXPECT_EQ(rules_of(model, {Loader::vllm, 1, 1}), Rules{"numbers!"}) << field;
    }
    Directory dropping = plain_llama();
    dropping.config_text = with_field(dropping.config_text, R"("attention_dropout": NaN)");
    EXPECT_EQ(rules_of(dropping, {}), Rules{"numbers"});
}

TEST(LoaderCheck, null_is_refused_by_some_model_types) {
    const std::map<std::string, Rules> fields = {{"rms_norm_eps", {"types!"}},
                                                 {"vocab_size", {"types!"}},
                                                 {"tie_word_embeddings", {"types!"}},
                                                 {"head_dim", {}},
                                                 {"layer_norm_eps", {}},  // of other types
                                                 {"anything", {}}};
    for (const auto& [field, rules] : fields) {
        Directory model = plain_llama();
        replace_in_config(model, R"("vocab_size": 40,)", "");
        replace_in_config(model, R"("tie_word_embeddings": false)", R"("x": 0)");
        model.config_text = with_field(model.config_text, "\"" + field + "\": null");
        EXPECT_EQ(rules_of(model, {}), rules) << field;
    }
    // Cohere's has no rms_norm_eps, and takes null for layer_norm_eps.
    Directory other = plain_llama();
    replace_in_config(other, R"("llama")", R"("cohere")");
    other.config_text = with_field(other.config_text, R"("layer_norm_eps": null)");
    EXPECT_EQ(rules_of(other, {}), Rules{});
}

TEST(LoaderCheck, a_config_of_another_kind_is_refused) {
    Directory model = plain_llama();
    for (const char* text : {"[]", "{", "1", "{\"architectures\": {}}"}) {
        model.config_text = text;
        const auto rules = rules_of(model, {});
        EXPECT_EQ(std::ranges::count(rules, "config!"), std::string(text).size() <= 2) << text;
    }
}

}  // namespace
}  // namespace shardweld::loaders
