#include "core/text.hpp"

#include <gtest/gtest.h>

namespace shardweld {
namespace {

TEST(NaturalLess, orders_numbers_by_value_and_stays_total) {
    EXPECT_TRUE(natural_less("layers.9.w", "layers.10.w"));
    EXPECT_FALSE(natural_less("layers.10.w", "layers.9.w"));
    EXPECT_TRUE(natural_less("a", "a.b"));
    EXPECT_TRUE(natural_less("mp_rank_00_002", "mp_rank_00_011"));
    EXPECT_FALSE(natural_less("x1", "x1"));
    EXPECT_NE(natural_less("x01", "x1"), natural_less("x1", "x01"));
    EXPECT_TRUE(natural_less("99999999999999999999998", "99999999999999999999999"));
}

TEST(ParseSize, knows_decimal_and_binary_units) {
    EXPECT_EQ(parse_size("5GB"), Bytes{5000000000});
    EXPECT_EQ(parse_size("5GiB"), Bytes{5} << 30U);
    EXPECT_EQ(parse_size("5G"), Bytes{5} << 30U);
    EXPECT_EQ(parse_size("64"), Bytes{64});
    EXPECT_EQ(parse_size("1.5KB"), Bytes{1500});
    for (const char* bad :
         {"", "GB", "-1", "5 GB", "5gb", "1e30", "99999999999TB", "nan", "0x10"}) {
        EXPECT_EQ(parse_size(bad), std::nullopt) << bad;
    }
}

TEST(HumanBytes, keeps_three_figures) {
    EXPECT_EQ(human_bytes(0), "0 B");
    EXPECT_EQ(human_bytes(999), "999 B");
    EXPECT_EQ(human_bytes(4310000000), "4.31 GB");
    EXPECT_EQ(human_bytes(999999), "1.00 MB");
}

TEST(Printable, escapes_what_a_terminal_would_obey) {
    EXPECT_EQ(printable("a\x1b[2J\n"), "a\\x1b[2J\\x0a");
    EXPECT_EQ(printable("abcdef", 3), "abc...");
}

TEST(Printable, leaves_words_of_any_language_and_escapes_what_is_unseen_or_no_text) {
    const std::string word = "\u6a21\u578b \u00e9\U0001f600";
    EXPECT_EQ(printable(word), word);
    EXPECT_EQ(printable("a\u202eb\u200b\u009b"), "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8b\\xc2\\x9b");
    EXPECT_EQ(printable("a\xff\xe6z"), "a\\xff\\xe6z");
    // Cut between characters, never within one.
    EXPECT_EQ(printable(word, 3), word.substr(0, 3) + "...");
    EXPECT_EQ(printable(word, 5), word.substr(0, 3) + "...");
    EXPECT_EQ(printable(word, word.size()), word);
}

TEST(Listed, shows_eight_and_escapes_them) {
    EXPECT_EQ(listed({}), "");
    EXPECT_EQ(listed({"a", "\x1b[31m"}), "a, \\x1b[31m");
    EXPECT_EQ(listed({"1", "2", "3", "4", "5", "6", "7", "8"}), "1, 2, 3, 4, 5, 6, 7, 8");
    EXPECT_EQ(listed({"1", "2", "3", "4", "5", "6", "7", "8", "9"}), "1, 2, 3, 4, 5, 6, 7, 8, ...");
}

TEST(ParseIndex, accepts_only_whole_decimal_numbers) {
    EXPECT_EQ(parse_index("10"), 10);
    for (const char* bad : {"", "+1", "-1", "1x", " 1", "9223372036854775808"}) {
        EXPECT_EQ(parse_index(bad), std::nullopt) << bad;
    }
}

TEST(Split, keeps_empty_parts) {
    EXPECT_EQ(split("a..b", '.'), (std::vector<std::string_view>{"a", "", "b"}));
    EXPECT_EQ(trim(" \t10\n"), "10");
    EXPECT_EQ(trim("\n"), "");
}

TEST(Utf8, takes_code_points_in_their_shortest_form) {
    for (const char* good :
         {"", "a", "\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"}) {
        EXPECT_TRUE(is_utf8(good)) << good;
    }
    for (const char* bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xc3", "\xc3(", "\xe0\x80\xaf",
                            "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x80\x80\xaf", "\xf4\x90\x80\x80",
                            "\xf5\x80\x80\x80", "\xff", "a\xe2\x82"}) {
        EXPECT_FALSE(is_utf8(bad)) << bad;
    }
}

TEST(ShapeText, shows_every_real_shape_and_cuts_made_up_ones) {
    EXPECT_EQ(shape_text({}), "[]");
    EXPECT_EQ(shape_text(std::vector<Index>{3, 64, 32}), "[3, 64, 32]");
    const std::string text = shape_text(std::vector<Index>(100'000, 1));
    EXPECT_EQ(text.size(), 113U);
    EXPECT_TRUE(text.ends_with(", 1, ... 100000 axes]")) << text;
}

}  // namespace
}  // namespace shardweld
