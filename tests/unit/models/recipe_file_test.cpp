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

TEST(RecipeText, toy_files_are_fine) {
    EXPECT_EQ(error_of_statement(""), "no error");
    EXPECT_EQ(error_of_statement("# a comment"), "no error");
    EXPECT_EQ(error_of_statement("let z = 2 # a comment"), "no error");
}

TEST(RecipeText, statements_are_checked) {
    EXPECT_EQ(error_of_statement("lett z = 2"), "column 1: unknown statement 'lett'");
    EXPECT_EQ(error_of_statement("store a = b c"), "column 1: 'store' does not belong in a recipe");
    EXPECT_EQ(error_of_statement("let z"), "column 6: expected '=', found the end");
    EXPECT_EQ(error_of_statement("let 1z = 2"), "column 5: '1z' is not a 64-bit number");
    EXPECT_EQ(error_of_statement("let z = 2 3"),
              "column 11: expected the end of the line, found '3'");
    EXPECT_EQ(error_of_statement("let i = 2"),
              "column 5: 'i' is defined a second time in this file");
    EXPECT_EQ(error_of_statement("recipe again"),
              "column 1: a file declares one recipe or dialect; this one is 'toy_model'");
    EXPECT_EQ(error_of_statement("format 2"),
              "column 8: file format 2 is not known; this program reads format 1");
    EXPECT_EQ(error_of_statement("  a = b c"),
              "column 3: an indented line needs a 'block' or 'module' above it");
    EXPECT_EQ(error_of_statement("at a = b nowhere"), "there is no block 'nowhere'");
    EXPECT_EQ(error_of_statement("ignore x"),
              "column 9: expected the reason in quotes, found the end");
    EXPECT_EQ(error_of_statement("ignore \"why\""), "column 1: expected a name before the reason");
    EXPECT_EQ(error_of_statement("config a = 1 if missing x*"),
              "column 17: expected 'absent' or 'present', found 'missing'");
    EXPECT_EQ(error_of_statement("verified with x"), "column 10: expected 'by', found 'with'");
    EXPECT_EQ(error_of_statement("linear"),
              "column 7: expected a logical name, or several with '+', found the end");
    EXPECT_EQ(error_of_load({{"x.recipe", "let a = 1\n"}}),
              "usage: x.recipe:1: column 1: a file begins with 'recipe NAME' or 'dialect NAME'");
    EXPECT_EQ(error_of_load({{"x.recipe", "# nothing\n"}}),
              "usage: x.recipe declares neither a recipe nor a dialect");
}

TEST(RecipeText, expressions_are_checked) {
    EXPECT_EQ(error_of_statement("let z = 1 +"),
              "column 12: expected a number, a name, '@field' or '(', found the end");
    EXPECT_EQ(error_of_statement("let z = (1"), "column 11: expected ')', found the end");
    EXPECT_EQ(error_of_statement("let z = 1 ; 2"), "column 11: ';' does not belong here");
    EXPECT_EQ(error_of_statement("let z = @"), "column 9: expected a name after '@'");
    EXPECT_EQ(error_of_statement("let z = @a = \"b"), "column 14: the text has no closing quote");
    EXPECT_EQ(error_of_statement("let z = j = \"b\""),
              "column 11: only '@field' and '$name' can be compared with a text, by '=' or '!='");
    EXPECT_EQ(error_of_statement("let z = j has 1"),
              "column 15: only a list '@field' can be on the left of 'has'");
    EXPECT_EQ(error_of_statement("let z = 9223372036854775808"),
              "column 9: '9223372036854775808' is not a 64-bit number");
    EXPECT_EQ(error_of_statement("let z = " + std::string(65, '(')),
              "column 73: nested deeper than 64 levels");
    std::string sum = "let z = 1";
    for (int i = 0; i < 64; ++i) {
        sum += "+1";
    }
    EXPECT_EQ(error_of_statement(sum), "column 138: an expression of more than 64 terms in a row");
    EXPECT_EQ(error_of_statement("let z = nowhere + 1"),
              "recipe toy_model with dialect toy does not define 'nowhere'");
}

TEST(RecipeText, lines_are_checked) {
    EXPECT_EQ(error_of_statement("hub a b"), "column 7: expected '=', found 'b'");
    EXPECT_EQ(error_of_statement("hub a = norm"),
              "layout \"\": column 1: expected at least one dim, found the end");
    EXPECT_EQ(error_of_statement("hub a = norm (j"),
              "layout \"(j\": column 3: expected a name, '*', '[' or ')', found the end");
    EXPECT_EQ(error_of_statement("hub a = norm j <tp 0>"),
              "column 16: only a dialect's lines say how shards are joined");
    EXPECT_EQ(error_of_statement("hub a = norm j keep f8"),
              "column 21: expected 'f32', 'f16', 'bf16' or 'f64', found 'f8'");
    EXPECT_EQ(
        error_of_statement("hub a = norm j if t 3"),
        "column 21: expected 'if', 'optional', 'together', 'keep', 'add', 'drop', 'as' and 'below' "
        "(after 'drop'), 'repeat', 'unwritten' or the end of the line, found '3'");
    EXPECT_EQ(error_of_statement("hub a = norm j drop z"),
              "column 21: the layout has no segment 'z'");
    EXPECT_EQ(error_of_statement("hub a = norm j repeat z"),
              "column 23: the layout has no axis 'z'");
    EXPECT_EQ(error_of_statement("hub a = norm j repeat j"),
              "column 1: only a dialect's lines say what is repeated");
    EXPECT_EQ(error_of_statement("hub a = norm *"),
              "a name that is written can have no extent '*'");
    EXPECT_EQ(error_of_statement("hub a.{q} = norm j"),
              "recipe toy_model has no 'index q', which the name counts by");
    EXPECT_EQ(error_of_statement("hub a.{l} = norm l"),
              "axis 'l' is a capture of the name already");
    EXPECT_EQ(error_of_statement("hub emb = emb v: vocab j"),
              "a second line for 'emb' with the same condition; the first is toy.recipe:13");
    EXPECT_EQ(error_of_statement("hub a = other j"), "dialect toy stores no other");
}

TEST(RecipeText, joins_are_checked) {
    const auto error = [](const std::string& join) {
        return error_of_load({toy_dialect("store s = s j " + join + "\n")});
    };
    EXPECT_EQ(error("<flat, ep 0, etp +0>"), "no error");
    EXPECT_EQ(error("<dp 0>"),
              "usage: toy.dialect:9: column 16: expected 'tp', 'etp', 'ep' or "
              "'flat', found 'dp'");
    EXPECT_EQ(error("<tp 12>"), "usage: toy.dialect:9: column 19: no tensor has that dim");
    EXPECT_EQ(error("<tp +1>"), "usage: toy.dialect:9: column 20: a new dim can only be dim 0");
    EXPECT_EQ(error("<tp 0"), "usage: toy.dialect:9: column 20: expected '>', found the end");
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
    const auto error = [](const std::string& statement) {
        const std::string text = error_of_load({toy_dialect(statement + "\n"), toy_recipe()});
        const std::string prefix = "usage: toy.dialect:9: ";
        return text.starts_with(prefix) ? text.substr(prefix.size()) : text;
    };
    EXPECT_EQ(error("alias {a|b}.{l}.c. = {d|e}.{l}.f. stacked l if l > 1"), "no error");
    EXPECT_EQ(error("alias a.{l}. = b."),
              "column 1: both names of an alias need the same captures");
    EXPECT_EQ(error("alias {a|b}. = c."),
              "column 1: both names of an alias need as many alternatives");
    EXPECT_EQ(error("alias a.{l+L}. = b.{l}."),
              "column 1: a name of an alias can add nothing to a capture");
    EXPECT_EQ(error("alias a.{l}x = b.{l}. stacked l"),
              "column 1: the name 'a.{l}x' has no '{l}.' to leave out");
    EXPECT_EQ(error("alias a.{l}. = b.{l}. if nothing"),
              "recipe toy_model with dialect toy does not define 'nothing'");
    EXPECT_EQ(error_of_statement("alias a. = b."), "column 1: 'alias' does not belong in a recipe");

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
