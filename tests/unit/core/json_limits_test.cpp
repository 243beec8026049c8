// What is refused before a JSON parser sees it.
#include <string>

#include <gtest/gtest.h>

#include "core/json.hpp"

namespace shardweld {
namespace {

TEST(TooDeepAt, names_the_bracket_beyond_the_limit) {
    const std::string open(kDeepestJson, '[');
    EXPECT_EQ(too_deep_at(open), std::nullopt);
    EXPECT_EQ(too_deep_at(open + "{"), kDeepestJson);
    EXPECT_EQ(too_deep_at(open + "]]]{[[["), kDeepestJson + 6);
}

TEST(TooDeepAt, does_not_count_brackets_in_strings) {
    const std::string many(1000, '[');
    EXPECT_EQ(too_deep_at("\"" + many + "\""), std::nullopt);
    EXPECT_EQ(too_deep_at(R"("\"" )" + many), 5 + kDeepestJson);
    EXPECT_EQ(too_deep_at(R"("\\")" + many), 4 + kDeepestJson);
}

TEST(TooDeepAt, forgives_closing_brackets_that_were_never_opened) {
    EXPECT_EQ(too_deep_at(std::string(1000, ']') + "[]"), std::nullopt);
}

TEST(TooLongAt, names_the_character_beyond_the_limit_of_numbers_outside_strings) {
    const std::string longest(kLongestNumber, '1');
    EXPECT_EQ(too_long_at("[" + longest + "," + longest + "]"), std::nullopt);
    EXPECT_EQ(too_long_at("[" + longest + "1]"), 1 + kLongestNumber);
    EXPECT_EQ(too_long_at("[\"" + longest + "1\"]"), std::nullopt);
    EXPECT_EQ(too_long_at("[-0." + longest + "]"), 1 + kLongestNumber);
}

std::string fields(std::size_t n) {
    std::string text = "{";
    for (std::size_t i = 0; i < n; ++i) {
        text += "\"k\":0,";
    }
    return text + "}";
}

TEST(TooWideAt, allows_what_a_model_has_and_names_the_field_beyond) {
    EXPECT_EQ(too_wide_at(fields(31'000)), std::nullopt);
    EXPECT_TRUE(too_wide_at(fields(32'000)).has_value());
    EXPECT_EQ(too_wide_at("[" + fields(15'000) + "," + fields(15'000) + "]"), std::nullopt);
}

}  // namespace
}  // namespace shardweld
