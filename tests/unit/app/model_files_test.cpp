// A model is written as the reference is spelled.
#include "app/family/model_files.hpp"

#include <gtest/gtest.h>

#include "catalogue/catalogue.hpp"

namespace shardweld::app {
namespace {

constexpr const char* kRecipe = R"(recipe toy
format 1
match @model_type = "toy"
let h = 4
let f = 3
index l = 2
index e = 2
block layer
  experts.{e}.gate.weight = fc1 gate: f h  optional  keep f32
  experts.{e}.up.weight   = fc1 up: f h    optional
  down                    = fc2 e h f
  square                  = sq  e h (h2 one)
module layer
  experts.gate_up         = fc1 e [gate: f | up: f] h
  down                    = fc2 e f h
  square                  = sq  e (h2 one) h
let h2 = 4
let one = 1
at layers.{l}. = layer.{l}. layer
rename tree. = eyes.
either eyes. = eyes.inner.
pass eyes.*
)";

class ReferenceSpelling : public testing::Test {
  protected:
    ReferenceSpelling()
        : library_(models::RecipeLibrary::load({{"toy.recipe", kRecipe}})),
          recipe_(*library_.find_recipe("toy")),
          dialect_(models::own_names(recipe_, *library_.find_dialect("hf_module"))),
          symbols_(recipe_, dialect_, models::Config::parse(R"({"model_type": "toy"})", "c"), {},
                   {}) {}

    /// Lines that are written, "name layout".
    [[nodiscard]] std::vector<std::string> written(const Reference& reference,
                                                   const catalogue::Catalogue& stored = {}) const {
        std::vector<std::string> lines;
        models::Recipe recipe = recipe_;
        models::Dialect dialect = dialect_;
        spell_as(reference, stored, symbols_, recipe, dialect);
        for (const models::Line& line : recipe.hub) {
            lines.push_back(line.name.text.substr(11) + " " + line.layout.text);
        }
        return lines;
    }

    models::RecipeLibrary library_;
    const models::Recipe& recipe_;
    models::Dialect dialect_;
    models::Symbols symbols_;
};

using Names = std::vector<std::string>;

TEST_F(ReferenceSpelling, is_the_tree_s_own_without_one) {
    const Names own{"experts.{e}.gate.weight gate: f h", "experts.{e}.up.weight up: f h",
                    "down e f h", "square e (h2 one) h"};
    EXPECT_EQ(written({}), own);
    catalogue::Catalogue stored;
    stored.tensors.push_back({"layers.0.down", DType::bf16, {2, 4, 3}, {}});
    EXPECT_EQ(written({}, stored)[2], "down e h f") << "as it is stored";
}

TEST_F(ReferenceSpelling, takes_module_lines_with_what_the_hub_s_say) {
    const Reference reference{{"layers.#.experts.gate_up", {}}};
    models::Recipe recipe = recipe_;
    models::Dialect dialect = dialect_;
    spell_as(reference, {}, symbols_, recipe, dialect);
    ASSERT_EQ(recipe.hub.size(), 3U);
    const models::Line& line = recipe.hub.back();
    EXPECT_EQ(line.name.text, "layers.{l}.experts.gate_up");
    EXPECT_TRUE(line.optional);
    EXPECT_EQ(line.keep, DType::f32);
    // Names of both kinds tell nothing, and stored names are read as ever.
    const Reference both{{"layers.#.experts.gate_up", {}}, {"layers.#.experts.#.up.weight", {}}};
    EXPECT_EQ(written(both).size(), 4U);
    EXPECT_EQ(dialect.store.size(), dialect_.store.size());
}

TEST_F(ReferenceSpelling, takes_the_order_of_dims_from_a_shape) {
    const auto with = [&](const std::vector<Index>& shape) {
        return written({{"layers.#.down", shape}})[2];
    };
    EXPECT_EQ(with({2, 4, 3}), "down e h f");
    EXPECT_EQ(with({2, 3, 4}), "down e f h");
    EXPECT_EQ(with({2, 5, 4}), "down e f h") << "a shape of neither tells nothing";
    EXPECT_EQ(with({}), "down e f h") << "nor does a name alone";
}

TEST_F(ReferenceSpelling, begins_names_as_the_reference_does) {
    const auto name = [&](const Names& known, const std::string& own) {
        Reference reference;
        for (const std::string& one : known) {
            reference[one];
        }
        return spelled_name(reference, recipe_, own);
    };
    EXPECT_EQ(name({"eyes.inner.a.#"}, "eyes.a.7"), "eyes.inner.a.7");
    EXPECT_EQ(name({"eyes.a.#"}, "eyes.inner.a.7"), "eyes.a.7");
    EXPECT_EQ(name({"tree.a.#"}, "eyes.a.7"), "tree.a.7");
    EXPECT_EQ(name({"eyes.a.#", "eyes.inner.a.#"}, "eyes.a.7"), "eyes.a.7") << "both are there";
    EXPECT_EQ(name({"eyes.b"}, "eyes.a.7"), "eyes.a.7") << "neither is";
}

}  // namespace
}  // namespace shardweld::app
