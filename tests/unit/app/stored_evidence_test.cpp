#include "app/family/stored_evidence.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"

namespace shardweld::app {
namespace {

using Names = std::vector<std::string>;

/// The names as they become under a family's recipe; those that stay are said so by `kept`.
Names taken(const std::string& family, const Names& names, std::size_t n_notes) {
    catalogue::Catalogue catalogue;
    for (const std::string& name : names) {
        catalogue.tensors.emplace_back().name = name;
    }
    const auto library = models::RecipeLibrary::load();
    const auto notes = take_family_names(*library.find_recipe(family), catalogue);
    EXPECT_EQ(notes.size(), n_notes) << (notes.empty() ? "" : notes.front());
    Names out;
    for (const auto& tensor : catalogue.tensors) {
        out.push_back(tensor.name);
    }
    return out;
}

void expect_kept(const std::string& family, const Names& names) {
    EXPECT_EQ(taken(family, names, 0), names);
}

TEST(FamilyNames, lose_what_a_module_around_the_model_puts_in_front) {
    const Names own{"lm_head.weight", "model.embed_tokens.weight"};
    for (const std::string holder : {"net.", "model.", "policy.actor.", "language_model."}) {
        EXPECT_EQ(taken("llama", {holder + own[0], holder + own[1]}, 1), own);
    }
    EXPECT_EQ(taken("llama", {"base_model.model.net.model.embed_tokens.base_layer.weight"}, 1),
              Names{"base_model.model.model.embed_tokens.base_layer.weight"});
    EXPECT_EQ(
        taken("llava", {"net.model.language_model.embed_tokens.weight", "net.model.vision_tower.x"},
              1),
        (Names{"model.language_model.embed_tokens.weight", "model.vision_tower.x"}));
}

TEST(FamilyNames, are_told_by_an_adapter_alone) {
    const std::string factor = "model.layers.0.self_attn.q_proj.lora_A.default.weight";
    EXPECT_EQ(taken("llama", {"net." + factor}, 1), Names{factor});
    expect_kept("llama", {factor});
    expect_kept("llama", {"base_model.model." + factor});
}

TEST(FamilyNames, stay_where_they_are_the_familys_or_nobody_knows) {
    expect_kept("llama", {"model.embed_tokens.weight", "model.norm.weight"});
    expect_kept("llama", {"lm_head.weight", "net.model.embed_tokens.weight"});
    expect_kept("llama", {"net.embed_tokens.weight", "net.layers.0.input_layernorm.weight"});
    expect_kept("llava", {"language_model.model.embed_tokens.weight"});
    expect_kept("llava", {"model.language_model.embed_tokens.weight"});
    expect_kept("llava", {"multi_modal_projector.linear_1.weight"});
    expect_kept("qwen2_5_omni", {"thinker.model.embed_tokens.weight", "thinker.visual.x"});
    expect_kept("voxtral", {"language_model.model.embed_tokens.weight"});
    expect_kept("module_tree", {"text_model.model.embed_tokens.weight"});
}

TEST(FamilyNames, have_the_part_of_a_larger_model_where_others_are_there) {
    EXPECT_EQ(
        taken("qwen3_vl",
              {"lm_head.weight", "model.embed_tokens.weight", "model.visual.pos_embed.weight"}, 1),
        (Names{"lm_head.weight", "model.language_model.embed_tokens.weight",
               "model.visual.pos_embed.weight"}));
    const Names alone{"lm_head.weight", "model.embed_tokens.weight"};
    expect_kept("qwen3_vl", alone);
    const auto library = models::RecipeLibrary::load();
    catalogue::Catalogue catalogue;
    catalogue.tensors.emplace_back().name = alone[1];
    EXPECT_TRUE(is_text_part(*library.find_recipe("qwen3_vl"), catalogue));
    EXPECT_FALSE(is_text_part(*library.find_recipe("qwen3"), catalogue));
    catalogue.tensors.front().name =
        "language_model.embed_tokens.weight";  // the class without head
    EXPECT_FALSE(is_text_part(*library.find_recipe("qwen3_vl"), catalogue));
}

}  // namespace
}  // namespace shardweld::app
