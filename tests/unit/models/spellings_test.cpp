#include "models/spellings.hpp"

#include <algorithm>

#include <gtest/gtest.h>

namespace shardweld::models {
namespace {

/// Whether a module that the Hub calls `name` may be called `other`.
bool is_spelled(const char* recipe, const std::string& name, const std::string& other) {
    const RecipeLibrary library = RecipeLibrary::load();
    const auto others = Spellings(*library.find_recipe(recipe)).others(name + ".");
    return std::ranges::count(others, other + ".") > 0;
}

TEST(Spellings, has_the_names_of_module_trees) {
    EXPECT_TRUE(is_spelled("gemma3", "vision_tower.encoder.layers.0.mlp.fc1",
                           "model.vision_tower.encoder.layers.0.mlp.fc1"));
    EXPECT_TRUE(is_spelled("qwen2_vl", "visual.merger.mlp.0", "model.visual.merger.mlp.0"));
    EXPECT_TRUE(is_spelled("mistral3", "language_model.lm_head", "lm_head"));
    EXPECT_FALSE(is_spelled("qwen2_vl", "visual.merger.mlp.0", "visual.merger.mlp.0"));
}

TEST(Spellings, has_those_of_either_spelling_of_the_hub) {
    for (const char* const other :
         {"vision_tower.encoder.layers.0.mlp.fc1", "model.vision_tower.encoder.layers.0.mlp.fc1",
          "model.vision_tower.vision_model.encoder.layers.0.mlp.fc1"}) {
        EXPECT_TRUE(
            is_spelled("gemma3", "vision_tower.vision_model.encoder.layers.0.mlp.fc1", other))
            << other;
    }
}

}  // namespace
}  // namespace shardweld::models
