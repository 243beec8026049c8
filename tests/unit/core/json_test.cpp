#include "core/json.hpp"

#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shardweld {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// Takes whatever is told.
struct Acceptor : json::json_sax_t {
    bool null() override { return true; }
    bool boolean(bool /*value*/) override { return true; }
    bool number_integer(number_integer_t /*value*/) override { return true; }
    bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
    bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
    bool string(string_t& /*value*/) override { return true; }
    bool binary(binary_t& /*value*/) override { return true; }
    bool start_object(std::size_t /*size*/) override { return true; }
    bool key(string_t& /*name*/) override { return true; }
    bool end_object() override { return true; }
    bool start_array(std::size_t /*size*/) override { return true; }
    bool end_array() override { return true; }
    bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        return false;
    }
};

TEST(ParseJson, says_why_a_text_is_not_read) {
    std::optional<JsonFault> fault;
    EXPECT_EQ(parse_json<json>("[1, 2]", &fault), json({1, 2}));
    EXPECT_FALSE(fault.has_value());
    EXPECT_TRUE(parse_json<json>("[1, x]", &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::syntax);
    EXPECT_EQ(fault->at, 4U);
    EXPECT_TRUE(parse_json<json>("[1e999]", &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::number);
    EXPECT_TRUE(fault->what.starts_with("number overflow")) << fault->what;
    EXPECT_TRUE(parse_json<json>(std::string(kLongestNumber + 1, '1'), &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::number);
    EXPECT_TRUE(parse_json<json>(std::string(100, '['), &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::deep);
    EXPECT_EQ(fault->at, kDeepestJson);
}

TEST(ParseJson, takes_neither_a_byte_order_mark_nor_what_follows_a_nul) {
    std::optional<JsonFault> fault;
    EXPECT_TRUE(parse_json<json>("\xef\xbb\xbf{}", &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::mark);
    const std::string hidden("{\"a\": 1}\0junk", 13);
    EXPECT_TRUE(parse_json<ordered_json>(hidden, &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::syntax);
    EXPECT_EQ(fault->at, 8U);
    EXPECT_TRUE(parse_json<json>(hidden.substr(0, 9)).is_discarded());
    Acceptor acceptor;
    EXPECT_FALSE(hear_json<json>(hidden, acceptor));
    EXPECT_TRUE(hear_json<json>(hidden.substr(0, 8), acceptor));
}

TEST(ParseJson, bounds_fields_only_where_their_order_is_kept) {
    std::string text = "{\"x\":0";
    for (int i = 0; i < 32'000; ++i) {
        text += ",\"" + std::to_string(i) + "\":0";
    }
    text += "}";
    std::optional<JsonFault> fault;
    EXPECT_TRUE(parse_json<ordered_json>(text, &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFlaw::wide);
    EXPECT_EQ(parse_json<json>(text).size(), 32'001U);
}

TEST(JsonString, is_what_a_parser_reads_back) {
    EXPECT_EQ(json_string("layers.0.q"), R"("layers.0.q")");
    EXPECT_EQ(json_string(""), R"("")");
    EXPECT_EQ(json_string("a\"b\\c\nd\x01"), R"("a\"b\\c\nd\u0001")");
    EXPECT_EQ(json_string("~\x7f\u00e9"), "\"~\x7f\u00e9\"");
}

TEST(HearJson, stops_at_texts_that_are_too_deep) {
    Acceptor listener;
    EXPECT_TRUE(hear_json<json>("[[]]", listener));
    EXPECT_FALSE(hear_json<json>("[[}", listener));
    EXPECT_FALSE(hear_json<json>(std::string(100, '[') + std::string(100, ']'), listener));
    EXPECT_FALSE(hear_json<json>(std::string(kLongestNumber + 1, '1'), listener));
}

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
