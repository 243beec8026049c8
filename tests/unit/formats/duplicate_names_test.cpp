#include "formats/containers/duplicate_names.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld::formats {
namespace {

// "first second", "" when all differ.
std::string repeated_in(const std::vector<std::string>& texts) {
    const std::vector<std::string_view> views(texts.begin(), texts.end());
    const auto found = find_duplicate(views);
    return found ? std::to_string(found->first) + " " + std::to_string(found->second) : "";
}

TEST(Duplicate, is_found_first) {
    EXPECT_EQ(repeated_in({}), "");
    EXPECT_EQ(repeated_in({"a"}), "");
    EXPECT_EQ(repeated_in({"a", "b", "", "aa"}), "");
    EXPECT_EQ(repeated_in({"", "b", ""}), "0 2");
    EXPECT_EQ(repeated_in({"c", "a", "b", "b", "a", "c"}), "2 3");
    EXPECT_EQ(repeated_in({"a", "a", "a"}), "0 1");
}

// Texts that fall into one slot of any table of up to 2^12 slots.
std::vector<std::string> colliding(std::size_t count) {
    std::vector<std::string> texts;
    for (std::size_t i = 0; texts.size() < count; ++i) {
        std::string text = std::to_string(i);
        if (std::hash<std::string_view>()(text) % 4096 == 0) {
            texts.push_back(std::move(text));
        }
    }
    return texts;
}

TEST(Duplicate, is_found_among_texts_made_to_collide) {
    auto texts = colliding(200);
    EXPECT_EQ(repeated_in(texts), "");
    texts[190] = texts[180];
    texts[199] = texts[0];
    EXPECT_EQ(repeated_in(texts), "180 190");
}

TEST(Duplicate, is_found_in_long_lists) {
    std::vector<std::string> texts;
    for (int i = 0; i < 20000; ++i) {
        texts.push_back("archive/data/" + std::to_string(i));
    }
    EXPECT_EQ(repeated_in(texts), "");
    texts.emplace_back("archive/data/19999");
    EXPECT_EQ(repeated_in(texts), "19999 20000");
}

}  // namespace
}  // namespace shardweld::formats
