#include "models/forms/saved_form.hpp"

#include <gtest/gtest.h>

#include "models/reading/generated.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

using NameMap = std::map<std::string, std::string>;

SavedModel saved(const std::string& config, const std::string& type) {
    return {config_of(config), type};
}

TEST(SavedForm, tells_names_that_transformers_changes_from_those_it_saves) {
    const SavedModel model = saved("{}", "axk1");
    EXPECT_TRUE(model.is_renamed("model.layers.12.mlp.experts.gate_up_proj", false));
    EXPECT_TRUE(model.is_renamed("layers.12.mlp.experts.gate_up_proj", false));
    EXPECT_FALSE(model.is_renamed("model.layers.12.mlp.experts.3.gate_proj.weight", false));
    EXPECT_FALSE(model.is_renamed("model.layers.12.mlp.experts.gate_up_proj", true));
    EXPECT_FALSE(saved("{}", "llama").is_renamed("model.layers.0.mlp.up_proj.weight", false));
}

TEST(SavedForm, looks_into_the_parts_of_a_model) {
    const SavedModel model = saved(R"({"text_config": {"model_type": "axk1"}})", "jais2");
    EXPECT_TRUE(model.is_renamed("model.language_model.layers.1.mlp.experts.down_proj", true));
}

TEST(SavedForm, ties_what_the_type_ties_unless_config_json_says_otherwise) {
    const std::vector<std::string> names = {"lm_head.weight", "model.embed_tokens.weight"};
    const NameMap tied = {{"lm_head.weight", "model.embed_tokens.weight"}};
    EXPECT_EQ(saved("{}", "llama").second_names(names), NameMap());
    EXPECT_EQ(saved(R"({"tie_word_embeddings": true})", "llama").second_names(names), tied);
    EXPECT_EQ(saved("{}", "gemma").second_names(names), tied);
    EXPECT_EQ(saved(R"({"tie_word_embeddings": false})", "gemma").second_names(names), NameMap());
    // A name that is there alone is that of the other.
    EXPECT_EQ(saved("{}", "gemma").second_names({"lm_head.weight"}), tied);
    // No type that is known.
    EXPECT_EQ(saved(R"({"tie_word_embeddings": true})", "").second_names(names), tied);
    EXPECT_EQ(saved(R"({"tie_word_embeddings": true})", "").second_names({names[0]}), NameMap());
}

TEST(SavedForm, finds_the_name_that_is_kept_behind_several) {
    const std::vector<std::string> names = {"lm_head.weight", "model.shared.weight",
                                            "model.encoder.embed_tokens.weight",
                                            "model.decoder.embed_tokens.weight"};
    NameMap kept;
    for (const std::size_t copy : {0U, 2U, 3U}) {
        kept[names[copy]] = "model.shared.weight";
    }
    EXPECT_EQ(saved("{}", "bart").second_names(names), kept);
}

TEST(SavedForm, ties_what_a_part_inside_ties) {
    const std::vector<std::string> names = {"text_model.lm_head.weight",
                                            "text_model.model.embed_tokens.weight"};
    const std::string text = R"({"text_config": {"model_type": "kosmos_2_5_text_model"}})";
    EXPECT_EQ(saved(text, "kosmos-2.5").second_names(names), (NameMap{{names[0], names[1]}}));
}

TEST(SavedForm, tells_of_which_types_nothing_is_known) {
    EXPECT_NE(refusal_of("autoformer"), "");  // no class of it could be made
    EXPECT_NE(refusal_of("inkling_mm_model"), "");
    EXPECT_EQ(refusal_of("opt"), "");
    EXPECT_EQ(refusal_of("nobody_knows"), "");
}

TEST(SavedForm, looks_where_the_text_part_ties_its_own) {
    const std::vector<std::string> names = {"lm_head.weight",
                                            "model.language_model.embed_tokens.weight"};
    const std::string text = R"({"model_type": "qwen2_vl_text", "tie_word_embeddings": true})";
    EXPECT_EQ(saved(R"({"text_config": )" + text + "}", "qwen2_vl").second_names(names).size(), 1U);
    EXPECT_EQ(saved("{}", "qwen2_vl").second_names(names).size(), 0U);
}

TEST(SavedForm, knows_the_type_that_a_class_is_called_like) {
    EXPECT_EQ(type_of_saved_class("AXK1ForCausalLM"), "axk1");
    EXPECT_EQ(type_of_saved_class("InklingForConditionalGeneration"), "inkling_mm_model");
    EXPECT_EQ(type_of_saved_class("NobodyForCausalLM"), "");
    EXPECT_NE(saving_library().find("transformers 5."), std::string::npos);
}

}  // namespace
}  // namespace shardweld::models
