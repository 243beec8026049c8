#include "models/config.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace shardweld::models {
namespace {

const std::string kText =
    "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"a\": 1,   \"b\": {\"c\": 1e-05},\n"
    "  \"text_config\": {\"d\": 2, \"a\": 9},\n  \"n\": null, \"name\": \"\\u00e9\"\n}";

TEST(Config, looks_fields_up_at_the_top_and_then_in_text_config) {
    const Config config = config_of(kText);
    EXPECT_EQ(config.integer("a"), 1);
    EXPECT_EQ(config.integer("d"), 2);
    EXPECT_EQ(config.integer("text_config.a"), 9);
    EXPECT_EQ(config.field("b.c"), FieldValue(1e-05));
    EXPECT_EQ(config.field("n"), FieldValue());
    EXPECT_EQ(config.field("b"), FieldValue());
    EXPECT_EQ(config.field("a.x"), FieldValue());
    EXPECT_EQ(config.text("name"), "\u00e9");
    EXPECT_EQ(config.text("a"), std::nullopt);
    EXPECT_EQ(config.count("b"), 1);
    EXPECT_EQ(config.count("architectures"), 1);
    EXPECT_EQ(config.count("a"), std::nullopt);
    EXPECT_EQ(config.list("architectures"), std::vector<FieldValue>{"LlamaForCausalLM"});
}

TEST(Config, a_text_is_a_list_of_its_letters) {
    const Config config = config_of(R"({"pattern": "M-*", "n": 3})");
    using Values = std::vector<FieldValue>;
    EXPECT_EQ(config.list("pattern"), (Values{"M", "-", "*"}));
    EXPECT_EQ(config.count("pattern"), 3);
    EXPECT_EQ(config.list("n"), std::nullopt);
    EXPECT_EQ(config.numbers("n"), std::nullopt);
}

TEST(Config, a_field_of_each_member_of_a_list_or_of_numbered_fields) {
    const Config config = config_of(
        R"({"text_config": {"list": [{"a": {"b": 1}}, {}, {"a": {"b": 3}}]},
            "numbered": {"2": {"a": 5}, "x": {"a": 7}, "0": 4, "99999999999": {"a": 9}}})");
    using Values = std::vector<FieldValue>;
    EXPECT_EQ(config.list("list.*.a.b"), (Values{Index{1}, {}, Index{3}}));
    EXPECT_EQ(config.list("numbered.*.a"), (Values{{}, {}, Index{5}}));
    EXPECT_EQ(config.list("absent.*.a"), std::nullopt);
}

TEST(Config, composite_models_describe_their_language_model_below) {
    Config config = config_of(
        R"({"model_type": "omni", "thinker_config": {"k": 1, "text_config": {"h": 8}},
            "llm_config": {"n": 4}})");
    EXPECT_EQ(config.integer("h"), 8);
    EXPECT_EQ(config.integer("n"), 4);
    EXPECT_EQ(config.integer("k"), 1);
    config.set("h", "9");
    EXPECT_EQ(config.integer("thinker_config.text_config.h"), 9);
    config.remove("n");
    EXPECT_EQ(config.field("llm_config.n"), FieldValue());
}

TEST(Config, numbers) {
    const Config config = config_of(
        R"({"t": true, "f": false, "i": 10000.0, "x": 1.5, "big": 9223372036854775808, "m": -3})");
    EXPECT_EQ(config.field("t"), FieldValue(Index{1}));
    EXPECT_EQ(config.field("f"), FieldValue(Index{0}));
    EXPECT_EQ(config.field("i"), FieldValue(Index{10000}));
    EXPECT_EQ(config.field("x"), FieldValue(1.5));
    EXPECT_EQ(config.field("big"), FieldValue(9223372036854775808.0));
    EXPECT_EQ(config.field("m"), FieldValue(Index{-3}));
}

TEST(Config, text_is_kept_until_something_changes) {
    Config config = config_of(kText);
    config.set("a", "1");
    config.set("name", "\"\\u00e9\"");
    config.remove("nothing");
    config.remove("n");
    EXPECT_FALSE(config.changed());
    EXPECT_EQ(config.text_to_write(), kText);
}

TEST(Config, edits_keep_order_and_place) {
    Config config = config_of(kText);
    const Config before = config;
    config.set("d", "3");
    config.set("b.c", "\"x\"");
    config.set("n", "[]");
    config.set("new", "true");
    config.remove("architectures");
    EXPECT_TRUE(config.changed());
    EXPECT_EQ(
        config.text_to_write(),
        "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": \"x\"\n  },\n  \"text_config\": {\n    \"d\": "
        "3,\n    \"a\": 9\n  },\n  \"n\": [],\n  \"name\": \"\u00e9\",\n  \"new\": true\n}\n");
    EXPECT_EQ(before.text_to_write(), kText);
    config.remove("text_config.d");
    config.remove("d");
    EXPECT_EQ(config.field("d"), FieldValue());
    EXPECT_EQ(config.integer("text_config.a"), 9);
}

TEST(Config, set_refuses_what_is_no_json) {
    Config config = config_of("{}");
    EXPECT_EQ(error_of([&] { config.set("a", "{"); }), "internal: no JSON value for a");
}

TEST(Config, bad_text_is_corrupt) {
    const auto error = [](const std::string& text) { return error_of([&] { config_of(text); }); };
    EXPECT_EQ(error("{\n  \"a\": 1,\n  oops\n}"),
              "corrupt: config.json is not valid JSON at line 3, column 3");
    EXPECT_EQ(error("[1]"), "corrupt: config.json is not a JSON object");
    EXPECT_EQ(error(""), "corrupt: config.json is not valid JSON at line 1, column 1");
    EXPECT_EQ(error("{\"a\": " + std::string(64, '[') + std::string(64, ']') + "}"),
              "corrupt: config.json is nested deeper than 64 levels at line 1, column 70");
    EXPECT_EQ(error("{\"a\": " + std::string(63, '[') + std::string(63, ']') + "}"), "no error");
    EXPECT_EQ(error("{\"a\": \"" + std::string(100, '[') + "\\\"{\"}"), "no error");
    EXPECT_EQ(error(std::string(64'000'001, ' ')), "corrupt: config.json is larger than 64 MB");
    std::string many = "{\"\":0";
    for (int i = 0; i < 40'000; ++i) {
        many += ",\"\":0";
    }
    EXPECT_TRUE(
        error(many + "}").starts_with("corrupt: config.json has too many fields at line 1"));
}

TEST(Config, names_the_model_class) {
    const auto kind = [](const std::string& name) {
        return config_of("{\"architectures\": [\"" + name + "\", \"XForCausalLM\"]}").model_class();
    };
    EXPECT_EQ(kind("LlamaForCausalLM"), ModelClass::causal_lm);
    EXPECT_EQ(kind("LlamaForTokenClassification"), ModelClass::token_classification);
    EXPECT_EQ(kind("LlamaForSequenceClassification"), ModelClass::token_classification);
    EXPECT_EQ(kind("Qwen2VLForConditionalGeneration"), ModelClass::vision_to_text);
    EXPECT_EQ(kind("AutoModelForVision2Seq"), ModelClass::vision_to_text);
    EXPECT_EQ(kind("BertModel"), ModelClass::other);
    EXPECT_EQ(config_of("{}").model_class(), ModelClass::other);
    EXPECT_EQ(config_of("{\"architectures\": [\"a\", 1, \"b\"]}").architectures(),
              (std::vector<std::string>{"a", "b"}));
    EXPECT_EQ(config_of("{\"architectures\": \"ab\"}").architectures(),
              std::vector<std::string>{"ab"});
    EXPECT_TRUE(config_of("{\"architectures\": \"\"}").architectures().empty());
}

}  // namespace
}  // namespace shardweld::models
