#include "core/json.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shardweld {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

TEST(ParseJson, says_why_a_text_is_not_read) {
    std::optional<JsonFault> fault;
    EXPECT_EQ(parse_json<json>("[1, 2]", &fault), json({1, 2}));
    EXPECT_FALSE(fault.has_value());
    EXPECT_TRUE(parse_json<json>("[1, x]", &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFault::Kind::syntax);
    EXPECT_EQ(fault->at, 4U);
    EXPECT_TRUE(parse_json<json>("[1e999]", &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFault::Kind::number);
    EXPECT_TRUE(parse_json<json>(std::string(100, '['), &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFault::Kind::deep);
    EXPECT_EQ(fault->at, kDeepestJson);
}

TEST(ParseJson, bounds_fields_only_where_their_order_is_kept) {
    std::string text = "{\"x\":0";
    for (int i = 0; i < 32'000; ++i) {
        text += ",\"" + std::to_string(i) + "\":0";
    }
    text += "}";
    std::optional<JsonFault> fault;
    EXPECT_TRUE(parse_json<ordered_json>(text, &fault).is_discarded());
    EXPECT_EQ(fault.value().kind, JsonFault::Kind::wide);
    EXPECT_EQ(parse_json<json>(text).size(), 32'001U);
}

TEST(HearJson, stops_at_texts_that_are_too_deep) {
    nlohmann::detail::json_sax_acceptor<json> listener;
    EXPECT_TRUE(hear_json<json>("[[]]", listener));
    EXPECT_FALSE(hear_json<json>("[[}", listener));
    EXPECT_FALSE(hear_json<json>(std::string(100, '[') + std::string(100, ']'), listener));
}

}  // namespace
}  // namespace shardweld
