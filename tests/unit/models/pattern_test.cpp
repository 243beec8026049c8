#include "models/pattern.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

const SymbolValue kTen = [](const std::string& name) { return name == "L" ? 10 : -1; };

TEST(Pattern, splits_text_at_captures) {
    const Pattern pattern = Pattern::parse("a.{l}.b{e}");
    EXPECT_EQ(pattern.literals, (std::vector<std::string>{"a.", ".b", ""}));
    EXPECT_EQ(pattern.captures, (std::vector<std::string>{"l", "e"}));
    EXPECT_EQ(pattern.plus, (std::vector<std::string>{"", ""}));
    EXPECT_EQ(Pattern::parse("a.{k+L}.b").plus, (std::vector<std::string>{"L"}));
}

TEST(Pattern, matches_whole_names_and_plain_numbers_only) {
    const Pattern pattern = Pattern::parse("a.{l}.b{e}");
    EXPECT_EQ(pattern.match("a.12.b0"), (Captures{{"l", 12}, {"e", 0}}));
    for (const char* name : {"a.12.b", "a.12.b0x", "a.x.b0", "a.012.b0", "a.00.b0", "a.-1.b0",
                             "xa.1.b0", "a.1", "a.9223372036854775808.b0", ""}) {
        EXPECT_EQ(pattern.match(name), std::nullopt) << name;
    }
    EXPECT_EQ(pattern.match("a.9223372036854775807.b0")->at("l"), 9223372036854775807);
    EXPECT_TRUE(Pattern::parse("plain").match("plain")->empty());
    EXPECT_EQ(Pattern::parse("a.{k+L}").match("a.11"), std::nullopt);
}

TEST(Pattern, is_refused_where_a_name_could_be_read_in_two_ways) {
    const auto error = [](const char* text) { return error_of([=] { Pattern::parse(text); }); };
    EXPECT_EQ(error("a{l}{e}"), "usage: the name 'a{l}{e}' has no text between two captures");
    EXPECT_EQ(error("a{l}.{l}"), "usage: the name 'a{l}.{l}' captures l twice");
    EXPECT_EQ(error("a{l}7"), "usage: the name 'a{l}7' has a digit right behind a capture");
    EXPECT_EQ(error("a{l"), "usage: the name 'a{l' has a '{' that is not closed");
    EXPECT_EQ(error("a}"), "usage: the name 'a}' has a '}' or '|' outside of braces");
    EXPECT_EQ(error("a{l-1}"),
              "usage: the name 'a{l-1}' holds '{l-1}'; expected '{name}' or '{name+symbol}'");
}

TEST(Pattern, two_behind_one_another_are_what_their_texts_are) {
    for (const auto& [front, back] : {std::pair("a.{l}.", "b{e}.c"), {"", "b"}, {"a", "{l}.b"}}) {
        const Pattern whole = Pattern::parse(std::string(front) + back);
        const Pattern joined = concatenated(Pattern::parse(front), Pattern::parse(back), "");
        EXPECT_EQ(joined.text, whole.text);
        EXPECT_EQ(joined.literals, whole.literals);
        EXPECT_EQ(joined.captures, whole.captures);
        EXPECT_EQ(joined.plus, whole.plus);
    }
    for (const auto& [front, back] :
         {std::pair("a.{l}.", "b{l}"), {"a{l}", "{e}"}, {"a{l}", "1"}}) {
        EXPECT_THROW((void)concatenated(Pattern::parse(front), Pattern::parse(back), "x:1"), Error)
            << front << back;
    }
}

TEST(Pattern, formats_values_and_sums) {
    EXPECT_EQ(format(Pattern::parse("m.{k+L}.e{e}"), {{"k", 1}, {"e", 3}}, kTen), "m.11.e3");
    EXPECT_EQ(error_of([] { format(Pattern::parse("m.{k}"), {}, kTen); }),
              "internal: no value of k for the name m.{k}");
}

TEST(Pattern, conditions_see_the_sum_as_the_layer) {
    const Captures captures{{"k", 1}};
    EXPECT_EQ(captures_for_condition(Pattern::parse("m.{k+L}.x"), captures, kTen),
              (Captures{{"k", 1}, {"l", 11}}));
    EXPECT_EQ(captures_for_condition(Pattern::parse("m.{k}.x"), captures, kTen), captures);
}

TEST(Alternatives, expand_in_order_and_keep_captures) {
    EXPECT_EQ(expand_alternatives("a.{x.{e}.w|w{e}}.{1|2}"),
              (std::vector<std::string>{"a.x.{e}.w.1", "a.x.{e}.w.2", "a.w{e}.1", "a.w{e}.2"}));
    EXPECT_EQ(expand_alternatives("{l}"), (std::vector<std::string>{"{l}"}));
    std::string many;
    for (int i = 0; i < 7; ++i) {
        many += "{a|b}";
    }
    EXPECT_TRUE(
        error_of([&] { expand_alternatives(many); }).ends_with("stands for more than 64 names"));
}

}  // namespace
}  // namespace shardweld::models
