#include "models/sized_lines.hpp"

#include <gtest/gtest.h>

#include "models/name_changes.hpp"
#include "models/reading/declaration.hpp"
#include "models/reading/generated.hpp"

#include "support.hpp"

namespace shardweld::models {
namespace {

Recipe recipe_with(const std::string& statements) {
    const RecipeLibrary library = RecipeLibrary::load(
        {{"toy.recipe",
          "recipe sized_toy\nuses none\nmatch @model_type = \"toy\"\npass *\n" + statements}});
    return *library.find_recipe("sized_toy");
}

Symbols symbols_with(const Recipe& recipe) {
    return {recipe,
            own_names(recipe, *RecipeLibrary::load().find_dialect("hf_module")),
            Config::parse(R"({"heads": 4})", "config.json"),
            {},
            {}};
}

/// "name shape" of each hub tensor.
std::vector<std::string> sized(const Recipe& recipe, const std::vector<ShapedName>& stored) {
    const Recipe made = sized_for(recipe, symbols_with(recipe), stored, false);
    std::vector<std::string> found;
    for (const HubTensor& tensor : hub_tensors(made, symbols_with(made))) {
        found.push_back(tensor.name + " " + shape_text(tensor.shape));
    }
    return found;
}

using Names = std::vector<std::string>;

constexpr const char* kExperts =
    "sized a b e l\n"
    "tree m.{l}.gate_up = r.{l} e [x: a | y: a] b\n"
    "hub  m.{l}.{e}.gate = r.{l} x: a b\n"
    "hub  m.{l}.{e}.up = r.{l} y: a b\n";

TEST(SizedLines, have_the_extents_of_what_is_stored) {
    EXPECT_EQ(
        sized(recipe_with(kExperts), {{"m.7.gate_up", {2, 6, 5}}, {"m.0.gate_up", {1, 8, 5}}}),
        (Names{"m.0.0.gate [4, 5]", "m.0.0.up [4, 5]", "m.7.0.gate [3, 5]", "m.7.1.gate [3, 5]",
               "m.7.0.up [3, 5]", "m.7.1.up [3, 5]"}));
    EXPECT_EQ(
        sized(recipe_with(kExperts), {{"m.7.1.gate", {3, 5}}}),
        (Names{"m.7.0.gate [3, 5]", "m.7.1.gate [3, 5]", "m.7.0.up [3, 5]", "m.7.1.up [3, 5]"}));
    EXPECT_EQ(sized(recipe_with(kExperts), {{"other", {3}}}), Names{});
}

TEST(SizedLines, know_numbers_of_config_json) {
    const Recipe turned = recipe_with(
        "sized a\nlet n = @heads\nlet two = 2\n"
        "tree q = r (n two a)\nhub wq = r (n a two)\n");
    EXPECT_EQ(sized(turned, {{"q", {24}}}), (Names{"wq [24]"}));
}

TEST(SizedLines, refuse_what_shapes_do_not_tell) {
    const auto error = [](const char* recipe, const ShapedName& stored) {
        return error_of([&] { sized(recipe_with(recipe), {stored}); }).substr(0, 9);
    };
    EXPECT_EQ(error(kExperts, {"m.7.gate_up", {2, 7, 5}}), "mismatch:");
    constexpr const char* kJoined =
        "sized a b\ntree q = r x: a\ntree k = r y: b\nhub qk = r [x: a | y: b]\n";
    EXPECT_EQ(error(kJoined, {"qk", {7}}), "mismatch:");
    EXPECT_EQ(sized(recipe_with(kJoined), {{"q", {3}}, {"k", {4}}}), (Names{"qk [7]"}));
}

TEST(NameChanges, go_both_ways) {
    const Recipe recipe = recipe_with(
        "rename a. = b.\n"
        "rename a.{l}.x. = b.{l}.y.\n"
        "rename a.{l}.z = c.{l}\n");
    const auto changed = [&](const char* name) {
        const std::string other = renamed_by(recipe.renames, name);
        EXPECT_EQ(renamed_back_by(recipe.renames, other, ""), name);
        return other;
    };
    EXPECT_EQ(changed("a.w"), "b.w");
    EXPECT_EQ(changed("a.3.x.w"), "b.3.y.w");
    EXPECT_EQ(changed("a.3.z"), "c.3");
    EXPECT_EQ(changed("d"), "d");
    EXPECT_NE(error_of([] { recipe_with("rename a.{l}. = b.\n"); }), "no error");
    EXPECT_NE(error_of([] { recipe_with("rename a.{l+x}. = b.{l}.\n"); }), "no error");
}

TEST(GeneratedRecipes, are_sound) {
    const RecipeLibrary library = RecipeLibrary::load();
    const Dialect& trees = *library.find_dialect("hf_module");
    std::size_t n_found = 0;
    for (const TriedType& type : tried_types()) {
        const Recipe* const recipe = library.find_generated(type.name);
        ASSERT_EQ(recipe != nullptr, type.refused.empty()) << type.name;
        if (recipe != nullptr) {
            EXPECT_EQ(error_of([&] { check_meeting(*recipe, own_names(*recipe, trees)); }),
                      "no error");
            EXPECT_FALSE(promises_tensors(*recipe)) << type.name;
            ++n_found;
        }
    }
    EXPECT_GT(n_found, 80U);
}

}  // namespace
}  // namespace shardweld::models
