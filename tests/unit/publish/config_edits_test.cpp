#include "publish/config_edits.hpp"

#include <gtest/gtest.h>

#include "core/names/config_fields.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "support/error_text.hpp"

namespace shardweld::publish {
namespace {

std::string edited(const std::string& text, const Facts& facts) {
    std::vector<std::string> notes;
    return true_config(models::Config::parse(text, "config.json"), facts, notes).text_to_write();
}

Facts written_as(DType dtype) {
    Facts facts;
    facts.dtype = dtype;
    return facts;
}

TEST(StatedDtype, is_the_first_that_a_config_states) {
    const auto stated = [](const char* text) {
        return stated_dtype(models::Config::parse(text, "config.json"));
    };
    EXPECT_EQ(stated(R"({"torch_dtype": "bfloat16"})"), DType::bf16);
    EXPECT_EQ(stated(R"({"text_config": {"dtype": "float16"}})"), DType::f16);
    EXPECT_EQ(stated(R"({"dtype": "auto"})"), std::nullopt);
    EXPECT_EQ(stated("{}"), std::nullopt);
}

TEST(GenerationConfig, is_made_for_models_that_generate) {
    const auto made = [](const std::string& text) {
        return made_generation_config(models::Config::parse(text, "config.json"));
    };
    EXPECT_EQ(made(R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "vocab_size": 7,
                       "eos_token_id": [2, 3], "pad_token_id": null, "use_cache": true,
                       "transformers_version": "4.51.3"})"),
              "{\n  \"_from_model_config\": true,\n  \"bos_token_id\": 1,\n  \"eos_token_id\": [\n"
              "    2,\n    3\n  ],\n  \"output_attentions\": false,\n  \"output_hidden_states\": "
              "false,\n  "
              "\"transformers_version\": \"4.51.3\",\n  \"use_cache\": true\n}\n");
    EXPECT_EQ(made(R"({"architectures": ["Qwen2VLForConditionalGeneration"]})"),
              "{\n  \"_from_model_config\": true,\n  \"output_attentions\": false,\n  "
              "\"output_hidden_states\": false\n}\n");
    EXPECT_EQ(made(R"({"architectures": ["Qwen2ForTokenClassification"]})"), "");
    EXPECT_EQ(made("{}"), "");
}

TEST(TrueConfig, leaves_a_true_text_byte_for_byte) {
    const std::string text =
        "{ \"torch_dtype\":\"bfloat16\",\n\t\"tie_word_embeddings\" : false,\"vocab_size\":7 }";
    const Facts facts = written_as(DType::bf16);
    EXPECT_EQ(edited(text, facts), text);
    EXPECT_EQ(edited(text, Facts{}), text);
}

TEST(TrueConfig, corrects_the_dtype_under_the_key_that_is_there) {
    EXPECT_EQ(edited(R"({"torch_dtype": "float32", "a": 1})", written_as(DType::bf16)),
              "{\n  \"torch_dtype\": \"bfloat16\",\n  \"a\": 1\n}\n");
    EXPECT_EQ(edited(R"({"b": 2, "dtype": "bfloat16"})", written_as(DType::f32)),
              "{\n  \"b\": 2,\n  \"dtype\": \"float32\"\n}\n");
    EXPECT_EQ(edited(R"({"text_config": {"dtype": "bfloat16", "x": 1}})", written_as(DType::f16)),
              "{\n  \"text_config\": {\n    \"dtype\": \"float16\",\n    \"x\": 1\n  }\n}\n");
    EXPECT_EQ(edited(R"({"torch_dtype": "float32", "text_config": {"torch_dtype": "float32"}})",
                     written_as(DType::bf16)),
              "{\n  \"torch_dtype\": \"bfloat16\",\n  \"text_config\": {\n    \"torch_dtype\": "
              "\"bfloat16\"\n  }\n}\n");
}

TEST(TrueConfig, adds_the_dtype_where_none_is_stated) {
    EXPECT_EQ(edited(R"({"a": 1})", written_as(DType::bf16)),
              "{\n  \"a\": 1,\n  \"torch_dtype\": \"bfloat16\"\n}\n");
}

TEST(TrueConfig, names_as_many_labels_as_the_head_has_rows) {
    Facts facts;
    facts.labels = 1;
    const std::string one =
        "{\n  \"a\": 1,\n  \"id2label\": {\n    \"0\": \"LABEL_0\"\n  },\n  \"label2id\": {\n    "
        "\"LABEL_0\": 0\n  }\n}\n";
    EXPECT_EQ(edited(R"({"a": 1})", facts), one);
    EXPECT_EQ(edited(R"({"a": 1, "id2label": {"0": "A", "1": "B"}, "label2id": {"A": 0, "B": 1}})",
                     facts),
              one);
    // Right ones keep their names, and no field at all means two labels.
    const std::string named = R"({"id2label": {"0": "good"}, "label2id": {"good": 0}})";
    EXPECT_EQ(edited(named, facts), named);
    facts.labels = 2;
    EXPECT_EQ(edited(R"({"a": 1})", facts), R"({"a": 1})");
    EXPECT_EQ(edited(R"({"num_labels": 1})", facts),
              "{\n  \"num_labels\": 2,\n  \"id2label\": {\n    \"0\": \"LABEL_0\",\n    \"1\": "
              "\"LABEL_1\"\n  },\n  \"label2id\": {\n    \"LABEL_0\": 0,\n    \"LABEL_1\": 1\n  "
              "}\n}\n");
}

TEST(TrueConfig, makes_up_no_endless_list_of_labels) {
    Facts facts;
    facts.labels = 20'001;
    EXPECT_EQ(test::error_text([&] { edited(R"({"a": 1})", facts); }),
              "mismatch: the head has 20001 rows, config.json 2 labels; at most 20000 are made up; "
              "say \"num_labels\": 20001 there, without id2label");
    EXPECT_EQ(edited(R"({"num_labels": 20001})", facts), R"({"num_labels": 20001})");
}

TEST(TrueConfig, names_the_class_with_the_head_of_a_value_model) {
    Facts facts;
    facts.to_token_classes = true;
    EXPECT_EQ(edited(R"({"architectures": ["Qwen2ForCausalLM"]})", facts),
              "{\n  \"architectures\": [\n    \"Qwen2ForTokenClassification\"\n  ]\n}\n");
    const std::string already = R"({"architectures":["Qwen2ForTokenClassification"]})";
    EXPECT_EQ(edited(already, facts), already);
    facts.to_token_classes = false;
    const std::string causal = R"({"architectures":["Qwen2ForCausalLM"]})";
    EXPECT_EQ(edited(causal, facts), causal);
}

TEST(TrueConfig, applies_the_edits_of_the_recipe) {
    Facts facts;
    facts.edits = {{"num_nextn_predict_layers", "0", false, "mtp.*"}};
    const std::string one = R"({"num_nextn_predict_layers": 1, "a": 1})";
    EXPECT_EQ(edited(one, facts), "{\n  \"num_nextn_predict_layers\": 0,\n  \"a\": 1\n}\n");
    const std::string zero = R"({"num_nextn_predict_layers":0})";
    EXPECT_EQ(edited(zero, facts), zero);
    EXPECT_EQ(edited(R"({"a":1})", facts), R"({"a":1})");
    facts.logicals = {"layer.{l}.qkv", "mtp.{k}.proj"};
    EXPECT_EQ(edited(one, facts), one);
    facts.edits = {{"a", std::nullopt, true, "mtp.*"}};
    EXPECT_EQ(edited(one, facts), "{\n  \"num_nextn_predict_layers\": 1\n}\n");
}

TEST(TrueConfig, promises_no_layers_that_are_not_written) {
    Facts facts;
    facts.last_layer = 1;
    for (const std::string_view field :
         known_words("count of layers that predict further tokens")) {
        const std::string name(field);
        const std::string layers = R"({"num_hidden_layers": 2, ")" + name + R"(": 1})";
        EXPECT_EQ(edited(layers, facts),
                  "{\n  \"num_hidden_layers\": 2,\n  \"" + name + "\": 0\n}\n");
    }
    // At each level, and said for each.
    std::vector<std::string> notes;
    const models::Config both = true_config(
        models::Config::parse(R"({"mtp_depth": 1, "text_config": {"num_hidden_layers": 2,
                                  "mtp_depth": 3}, "thinker_config": {"n_predict": 0}})",
                              "config.json"),
        facts, notes);
    EXPECT_EQ(both.integer("mtp_depth"), 0);
    EXPECT_EQ(both.integer("text_config.mtp_depth"), 0);
    ASSERT_EQ(notes.size(), 2U);
    EXPECT_NE(notes[1].find("text_config.mtp_depth 3"), std::string::npos);
    // Those that are written count, by name or by a number behind the stack.
    const std::string one = R"({"num_hidden_layers": 2, "mtp_num_layers": 1})";
    facts.predicts = true;
    EXPECT_EQ(edited(one, facts), one);
    // Fewer than promised, by the recipe's count or behind the stack.
    const std::string three = R"({"num_hidden_layers": 2, "mtp_num_layers": 3})";
    EXPECT_EQ(edited(three, facts), three);
    facts.predictions = 2;
    EXPECT_EQ(edited(three, facts), "{\n  \"num_hidden_layers\": 2,\n  \"mtp_num_layers\": 2\n}\n");
    facts.predictions = std::nullopt;
    facts.predicts = false;
    facts.last_layer = 2;
    EXPECT_EQ(edited(one, facts), one);
    EXPECT_EQ(edited(three, facts), "{\n  \"num_hidden_layers\": 2,\n  \"mtp_num_layers\": 1\n}\n");
    // What holds no layer at all tells nothing.
    facts.last_layer = std::nullopt;
    EXPECT_EQ(edited(one, facts), one);
}

TEST(TrueConfig, drops_a_quantisation_that_is_not_written) {
    const std::string text = R"({"quantization_config": {"quant_method": "fp8"}, "a": 1})";
    EXPECT_EQ(edited(text, Facts{}), "{\n  \"a\": 1\n}\n");
    EXPECT_EQ(edited(R"({"quantization_config": {}, "text_config": {"quantization_config": {}}})",
                     Facts{}),
              "{\n  \"text_config\": {}\n}\n");
    Facts facts;
    facts.is_quantised = true;
    EXPECT_EQ(edited(text, facts), text);
}

TEST(FactsOf, takes_the_dtype_of_most_bytes_and_the_rows_of_the_head) {
    std::vector<plan::Target> targets(3);
    targets[0] = {{"a", DType::bf16, {10, 10}}, DType::bf16};
    targets[1] = {{"b", DType::f32, {40}}, DType::f32};
    targets[2] = {{"score.weight", DType::i64, {3, 99}}, DType::i64};
    const Facts facts = facts_of(targets, {"layer.{l}.qkv"}, models::Recipe{});
    EXPECT_EQ(facts.dtype, DType::bf16);
    EXPECT_EQ(facts.labels, 3);
    EXPECT_FALSE(facts.is_quantised);
    EXPECT_EQ(facts.logicals, (std::set<std::string>{"layer.{l}.qkv"}));
    targets[1].shape = {60};
    EXPECT_EQ(facts_of(targets, {}, models::Recipe{}).dtype, DType::f32);
}

TEST(FactsOf, knows_codes_and_layers_by_names_and_types) {
    const auto of = [](const std::string& name, DType dtype, std::vector<Index> shape) {
        return facts_of({plan::Target{{name, dtype, std::move(shape)}, dtype}}, {},
                        models::Recipe{});
    };
    EXPECT_TRUE(of("a.weight", DType::i8, {4, 4}).is_quantised);
    EXPECT_TRUE(of("a.weight", DType::u8, {8, 1}).is_quantised);
    EXPECT_TRUE(of("a.qweight", DType::i32, {4, 4}).is_quantised);
    EXPECT_TRUE(of("a.weight_packed", DType::i32, {4, 4}).is_quantised);
    EXPECT_TRUE(of("a.down_proj", DType::f8_e4m3, {2, 4, 4}).is_quantised);
    EXPECT_FALSE(of("position_ids", DType::i64, {1, 4}).is_quantised);
    EXPECT_FALSE(of("gate.tid2eid", DType::i32, {9, 4}).is_quantised);
    EXPECT_TRUE(of("mtp.fc.weight", DType::bf16, {4, 8}).predicts);
    EXPECT_TRUE(of("model.layers.9.eh_proj.weight", DType::bf16, {4, 8}).predicts);
    EXPECT_EQ(of("model.language_model.layers.11.mlp.x", DType::bf16, {4}).last_layer, 11);
    EXPECT_EQ(of("visual.blocks.31.norm.weight", DType::bf16, {4}).last_layer, std::nullopt);
}

TEST(MatchesGlob, lets_a_star_stand_for_any_text) {
    EXPECT_TRUE(glob_matches("mtp.*", "mtp.0.proj"));
    EXPECT_TRUE(glob_matches("mtp.*", "mtp."));
    EXPECT_FALSE(glob_matches("mtp.*", "layer.mtp.0"));
    EXPECT_TRUE(glob_matches("*.a*b", "x.aabab"));
    EXPECT_FALSE(glob_matches("*.a*b", "x.b"));
    EXPECT_FALSE(glob_matches("a*a", "a"));
    EXPECT_TRUE(glob_matches("head", "head"));
    EXPECT_FALSE(glob_matches("head", "heads"));
}

}  // namespace
}  // namespace shardweld::publish
