#include "core/names/name_rules.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld {
namespace {

TEST(NameRules, match_names_with_texts_and_numbers) {
    for (const auto& [pattern, name] :
         std::vector<std::pair<const char*, const char*>>{{"a", "a"},
                                                          {"*", ""},
                                                          {"*", "abc"},
                                                          {"a*c*", "abcabd"},
                                                          {"r_#.pt", "r_0.pt"},
                                                          {"r_#.pt", "r_123.pt"},
                                                          {"*_#_x", "_1_2_x"},
                                                          {"*.pt", "a.pt.pt"}}) {
        EXPECT_TRUE(matches(pattern, name)) << pattern << " " << name;
    }
    for (const auto& [pattern, name] :
         std::vector<std::pair<const char*, const char*>>{{"a", "b"},
                                                          {"", "a"},
                                                          {"a", ""},
                                                          {"r_#.pt", "r_.pt"},
                                                          {"r_#.pt", "r_x.pt"},
                                                          {"*.pt", "a.pth"},
                                                          {"a*c", "abcd"},
                                                          {"#", ""}}) {
        EXPECT_FALSE(matches(pattern, name)) << pattern << " " << name;
    }
}

TEST(NameRules, take_numbers_out_of_names_and_put_them_in) {
    const auto parts = match_name("*_{dp}_mp_{mp:02}*.pt", "bf16_12_mp_007_x.pt");
    ASSERT_TRUE(parts);
    EXPECT_EQ(parts->number("dp"), 12);
    EXPECT_EQ(parts->at("mp"), "007");
    EXPECT_EQ(parts->number("number"), 0);
    EXPECT_EQ(match_name("*_{x}_b", "1_2_a_3_b")->number("x"), 3);
    EXPECT_FALSE(match_name("a_{x}", "a_99999999999999999999")) << "no number of 64 bits";
    EXPECT_FALSE(match_name("a_{x}", "a_"));
    EXPECT_EQ(name_with("z_{dp}_mp_{mp:02}.pt", {{"dp", 3}, {"mp", 4}}), "z_3_mp_04.pt");
    EXPECT_EQ(name_with("z_{dp}_mp_{mp:02}.pt", {{"dp", 30}, {"mp", 456}}), "z_30_mp_456.pt");
}

TEST(NameRules, are_one_formats_or_all) {
    const NameRules& rules = name_rules();
    EXPECT_EQ(match_rule(rules.left_aside, "fsdp_config.json")->rule->format, "verl fsdp");
    EXPECT_FALSE(match_rule(rules.left_aside, "fsdp_config.json", ""));
    EXPECT_EQ(match_rule(rules.left_aside, "logs/", "")->rule->what, "logs");
    EXPECT_FALSE(match_rule(rules.left_aside, "logs", "")) << "a file";
    EXPECT_TRUE(match_rule(rules.seen, "a.h5"));
    EXPECT_FALSE(match_rule(rules.seen, "a.weights.h5")) << "but for Keras's";
    EXPECT_THROW(known_words("nothing"), Error);
    const auto& beginnings = known_words("beginning of other methods of PEFT");
    EXPECT_TRUE(std::ranges::is_sorted(beginnings));
    EXPECT_EQ(std::ranges::adjacent_find(beginnings,
                                         [](auto one, auto next) { return next.starts_with(one); }),
              beginnings.end())
        << "in a sorted list that one would be its neighbour's beginning, too";
    for (const NameRule& rule : rules.steps) {
        EXPECT_TRUE(rule.what.empty() || rule.what == "tracked") << rule.what;
    }
    for (const NameRule& rule : rules.last_saves) {
        EXPECT_TRUE(rule.what == "number" || rule.what == "name") << rule.what;
    }
}

}  // namespace
}  // namespace shardweld
