#include <cmath>

#include <gtest/gtest.h>

#include "core/json.hpp"

namespace shardweld {
namespace {

TEST(PythonJson, stands_in_for_numbers_that_json_has_not) {
    const std::string text = R"({"a": NaN, "b": [Infinity, -Infinity, -1], "NaN": "Infinity\\"})";
    const std::string out = without_nonfinite(text);
    EXPECT_EQ(out.size(), text.size());
    EXPECT_EQ(out.find("NaN"), text.rfind("NaN"));
    EXPECT_EQ(with_nonfinite(out), text);
}

TEST(PythonJson, leaves_other_texts_alone) {
    for (const std::string text : {R"({"a": "NaN \" NaN", "b": 1})", R"({"a": NaN, "b": "\u007f"})",
                                   "{\"a\": NaN, \"\x7f\": 1}", "", "\"NaN"}) {
        EXPECT_EQ(without_nonfinite(text), text);
    }
}

TEST(PythonJson, tells_what_a_string_stands_for) {
    EXPECT_TRUE(std::isnan(nonfinite_value(without_nonfinite("NaN").substr(1, 1))));
    EXPECT_EQ(nonfinite_value(without_nonfinite("-Infinity").substr(1, 7)), -INFINITY);
    EXPECT_EQ(nonfinite_value(without_nonfinite("Infinity").substr(1, 6)), INFINITY);
    EXPECT_EQ(nonfinite_value("NaN"), 0);
}

}  // namespace
}  // namespace shardweld
