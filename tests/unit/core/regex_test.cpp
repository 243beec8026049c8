#include "core/regex.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld {
namespace {

TEST(Regex, finds_parts_and_matches_wholes) {
    EXPECT_TRUE(Regex("b$").is_found_in("ab"));
    EXPECT_FALSE(Regex("^b").is_found_in("ab"));
    EXPECT_TRUE(Regex("a|ab").matches("ab"));
    EXPECT_FALSE(Regex("a").matches("ab"));
    EXPECT_TRUE(Regex(".").matches("\xff"));
}

TEST(Regex, takes_time_by_the_length_only) {
    const std::string text(100'000, 'a');
    EXPECT_FALSE(Regex("(.+)+!").is_found_in(text));
    EXPECT_FALSE(Regex("(a*)*(a|aa)+b").matches(text));
}

TEST(Regex, refuses_what_it_cannot_match_in_bounded_time_and_memory) {
    for (const std::string expression : {"(", "a(?=b)", "(a)\\1", "((a{100}){100}){100}"}) {
        EXPECT_EQ(test::error_text([&] { Regex{expression}; }).substr(0, 6), "usage:")
            << expression;
    }
    EXPECT_EQ(test::error_text([&] { Regex{std::string(200'000, '(')}; }).substr(0, 6), "usage:");
}

}  // namespace
}  // namespace shardweld
