// What the reader of recipe files refuses, and how it says so.
#include <map>

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

/// The message for the toy recipe with one more statement, which is its line 14.
std::string error_of_statement(const std::string& statement) {
    const std::string error = error_of_load({toy_dialect(), toy_recipe(statement + "\n")});
    const std::string prefix = "usage: toy.recipe:14: ";
    return error.starts_with(prefix) ? error.substr(prefix.size()) : error;
}

TEST(RecipeText, statements_are_checked) {
    for (const Asked& row : asked("statement", 42)) {
        EXPECT_EQ(error_of_statement(row.text), row.answer) << row.text;
    }
    EXPECT_EQ(error_of_load({{"x.recipe", "let a = 1\n"}}),
              "usage: x.recipe:1: column 1: a file begins with 'recipe NAME' or 'dialect NAME'");
    EXPECT_EQ(error_of_load({{"x.recipe", "# nothing\n"}}),
              "usage: x.recipe declares neither a recipe nor a dialect");
}

TEST(RecipeText, expressions_are_checked) {
    EXPECT_EQ(error_of_statement("let z = " + std::string(65, '(')),
              "column 73: nested deeper than 64 levels");
    std::string sum = "let z = 1";
    for (int i = 0; i < 64; ++i) {
        sum += "+1";
    }
    EXPECT_EQ(error_of_statement(sum), "column 138: an expression of more than 64 terms in a row");
}

TEST(RecipeText, joins_are_checked) {
    const std::string prefix = "usage: toy.dialect:9: ";
    for (const Asked& row : asked("join", 5)) {
        const std::string error = error_of_load({toy_dialect("store s = s j " + row.text + "\n")});
        EXPECT_EQ(error, (row.answer == "no error" ? "" : prefix) + row.answer) << row.text;
    }
}

TEST(RecipeText, sizes_are_bounded) {
    EXPECT_EQ(error_of_load({{"x.recipe", std::string(1'000'001, '\n')}}),
              "usage: x.recipe is larger than 1 MB");
    EXPECT_EQ(error_of_load({{"x.recipe", std::string(10'001, '\n')}}),
              "usage: x.recipe has more than 10000 lines");
    EXPECT_EQ(error_of_load({{"x.recipe", "recipe x\n#" + std::string(4096, 'x')}}),
              "usage: x.recipe:2: the line is longer than 4096 characters");
}

TEST(RecipeText, together_is_optional_but_for_lines_of_a_block_that_are_optional_anyway) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect(
             "store n2 = norm2 j\nstore n3.{l}.a = n3.{l}.a j\nstore n3.{l}.b = n3.{l}.b j\n"),
         toy_recipe("hub z = norm2 j together\n"
                    "block extra\n  a = a j\n  b = b j optional\n"
                    "at x.{l}. = n3.{l}. extra together\n")});
    std::map<std::string, std::pair<bool, bool>> lines;
    for (const Line& line : library.find_recipe("toy_model")->hub) {
        lines[line.name.text] = {line.optional, line.together};
    }
    EXPECT_EQ(lines.at("z"), std::pair(true, true));
    EXPECT_EQ(lines.at("x.{l}.a"), std::pair(true, true));
    EXPECT_EQ(lines.at("x.{l}.b"), std::pair(true, false));
}

TEST(RecipeText, line_options_are_read) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect("store n2 = norm2 j\nstore n3 = norm3 j  <flat, ep 0, etp +0>\n"),
         toy_recipe("hub z = norm2 j if t = 1 keep f32 optional add -2\n")});
    const Recipe& recipe = *library.find_recipe("toy_model");
    const Line& line = recipe.hub[1];
    EXPECT_EQ(line.name.text, "z");
    EXPECT_EQ(line.logical, "norm2");
    EXPECT_EQ(line.layout.text, "j");
    EXPECT_EQ(line.keep, DType::f32);
    EXPECT_TRUE(line.optional);
    EXPECT_EQ(line.add, -2);
    EXPECT_NE(line.condition, nullptr);
    EXPECT_EQ(line.origin, "toy.recipe:14");
    const Line& stored = library.find_dialect("toy")->store[2];
    ASSERT_TRUE(stored.join);
    EXPECT_TRUE(stored.join->flat);
    ASSERT_EQ(stored.join->steps.size(), 2U);
    EXPECT_EQ(stored.join->steps[0].group, JoinStep::Group::ep);
    EXPECT_FALSE(stored.join->steps[0].stack);
    EXPECT_EQ(stored.join->steps[1].group, JoinStep::Group::etp);
    EXPECT_TRUE(stored.join->steps[1].stack);
    EXPECT_EQ(library.find_dialect("toy")->store[0].drop, (std::vector<std::string>{"pad"}));
}

TEST(RecipeText, aliases_are_read_and_checked) {
    const std::string prefix = "usage: toy.dialect:9: ";
    for (const Asked& row : asked("dialect", 6)) {
        const std::string text = error_of_load({toy_dialect(row.text + "\n"), toy_recipe()});
        EXPECT_EQ(text.starts_with(prefix) ? text.substr(prefix.size()) : text, row.answer)
            << row.text;
    }
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect("alias {a|b}.{l}.c. = {d|e}.{l}.f. stacked l\n"), toy_recipe()});
    const std::vector<AliasRule>& rules = library.find_dialect("toy")->aliases;
    ASSERT_EQ(rules.size(), 2U);
    EXPECT_EQ(rules[1].from.text, "b.{l}.c.");
    EXPECT_EQ(rules[1].to.text, "e.{l}.f.");
    EXPECT_EQ(rules[1].stack.text, "b.c.");
    std::string_view name = "b.12.c.rest";
    EXPECT_EQ(rules[1].from.match_beginning(name), (Captures{{"l", 12}}));
    EXPECT_EQ(name, "rest");
    EXPECT_EQ(rules[0].from.match_beginning(name), std::nullopt);
    EXPECT_EQ(name, "rest");
}

TEST(RecipeText, other_statements_are_read) {
    const RecipeLibrary library = RecipeLibrary::load(
        {toy_dialect(),
         toy_recipe("same emb = norm if t\nignore a* b \"why # not\"\n"
                    "config f.g = absent if present mtp.*\nconfig h = \"text\" if absent x\n"
                    "verified by one, two\ngiven value\n")});
    const Recipe& recipe = *library.find_recipe("toy_model");
    ASSERT_EQ(recipe.same.size(), 1U);
    EXPECT_EQ(recipe.same[0].a + " = " + recipe.same[0].b, "emb = norm");
    EXPECT_NE(recipe.same[0].condition, nullptr);
    ASSERT_EQ(recipe.ignore.size(), 1U);
    EXPECT_EQ(recipe.ignore[0].globs, (std::vector<std::string>{"a*", "b"}));
    EXPECT_EQ(recipe.ignore[0].reason, "why # not");
    ASSERT_EQ(recipe.config.size(), 2U);
    EXPECT_EQ(recipe.config[0].field, "f.g");
    EXPECT_EQ(recipe.config[0].value, std::nullopt);
    EXPECT_TRUE(recipe.config[0].if_present);
    EXPECT_EQ(recipe.config[0].logical_glob, "mtp.*");
    EXPECT_EQ(recipe.config[1].value, "\"text\"");
    EXPECT_FALSE(recipe.config[1].if_present);
    EXPECT_EQ(recipe.verified, (std::vector<std::string>{"one", "two"}));
    EXPECT_EQ(recipe.givens, (std::vector<std::string>{"value"}));
}

}  // namespace
}  // namespace shardweld::models
