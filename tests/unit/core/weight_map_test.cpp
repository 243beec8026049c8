#include "core/names/weight_map.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld {
namespace {

std::string error_of(const std::string& text) {
    return test::error_text([&] { parse_weight_map(text, "index"); });
}

TEST(ParseWeightMap, numbers_files_as_they_come) {
    const WeightMap map = parse_weight_map(
        R"({"weight_map": {"a": "y", "b": "x/z", "c": "y"}, "metadata": {"total_size": 7}})", "");
    EXPECT_EQ(map.files, (std::vector<std::string>{"y", "x/z"}));
    EXPECT_EQ(map.file_of, (std::map<std::string, Index>{{"a", 0}, {"b", 1}, {"c", 0}}));
    EXPECT_EQ(map.file(map.file_of.at("b")), "x/z");
    EXPECT_EQ(map.total_size, 7U);
}

TEST(ParseWeightMap, takes_the_last_of_equal_keys) {
    const WeightMap map = parse_weight_map(
        R"({"weight_map": {"a": "x", "b": "y"}, "weight_map": {"a": "y", "a": "z"}})", "");
    EXPECT_EQ(map.file_of.size(), 1U);
    EXPECT_EQ(map.file(map.file_of.at("a")), "z");
}

TEST(ParseWeightMap, does_without_a_total_size) {
    for (const char* metadata :
         {"[]", "{}", "1", R"({"total_size": -1})", R"({"total_size": "7"})"}) {
        const std::string text =
            R"({"weight_map": {"a": "x"}, "metadata": )" + std::string(metadata) + "}";
        EXPECT_EQ(parse_weight_map(text, "").total_size, std::nullopt) << metadata;
    }
}

TEST(ParseWeightMap, refuses_what_misleads) {
    for (const std::string& text :
         std::vector<std::string>{"", "[]", "{}", R"({"weight_map": {}})", R"({"weight_map": []})",
                                  std::string(100, '[')}) {
        EXPECT_EQ(error_of(text),
                  "corrupt: index is not a JSON object with a weight_map of tensors");
    }
    EXPECT_EQ(error_of(R"({"weight_map": {"a": 1}})"),
              "corrupt: index gives the tensor a no file name");
    for (const char* file : {"../x", "/x", "x/./y", "", "x//y", "x/.."}) {
        EXPECT_EQ(
            error_of(R"({"weight_map": {"a": ")" + std::string(file) + "\"}}"),
            "corrupt: index names the file " + std::string(file) + ", which leaves the directory");
    }
}

}  // namespace
}  // namespace shardweld
