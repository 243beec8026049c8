#include "app/tokenizer/gguf_tokenizer.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

using Texts = std::vector<std::string>;

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+)"
    R"([\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";

std::string bytes_json(const std::string& expression) {
    return R"({"added_tokens": [{"id": 3, "content": "<s>", "special": true},
                                {"id": 4, "content": "a▁b", "special": false},
                                {"id": 9, "content": "<late>", "special": true}],
               "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
                   {"type": "Split", "pattern": {"Regex": ")" +
           expression + R"("}, "behavior": "Isolated"},
                   {"type": "ByteLevel", "use_regex": false}]},
               "post_processor": {"type": "TemplateProcessing",
                   "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}]},
               "model": {"type": "BPE", "byte_fallback": false,
                         "vocab": {"h": 0, "i": 1, "hi": 2}, "merges": [["h", "i"], ["  h", "i"]]}})";
}

publish::Asset asset(const std::string& name, const std::string& text) {
    return {name, {}, text};
}

const MetadataField* find(const GgufTokenizer& tokenizer, const std::string& key) {
    const auto found = std::ranges::find(tokenizer.keys, "tokenizer." + key, &MetadataField::key);
    return found == tokenizer.keys.end() ? nullptr : &*found;
}

std::string text_at(const GgufTokenizer& tokenizer, const std::string& key) {
    const MetadataField* const field = find(tokenizer, key);
    return field == nullptr || field->texts.size() != 1 ? "" : field->texts.front();
}

Texts texts_at(const GgufTokenizer& tokenizer, const std::string& key) {
    const MetadataField* const field = find(tokenizer, key);
    return field == nullptr ? Texts() : field->texts;
}

std::vector<std::int64_t> numbers_at(const GgufTokenizer& tokenizer, const std::string& key) {
    const MetadataField* const field = find(tokenizer, key);
    return field == nullptr ? std::vector<std::int64_t>() : field->integers;
}

TEST(GgufTokenizer, takes_byte_level_bpe) {
    const GgufTokenizer found =
        gguf_tokenizer({asset("tokenizer.json", bytes_json(kLlama3)),
                        asset("tokenizer_config.json",
                              R"({"bos_token": {"content": "<s>"}, "eos_token": "none"})"),
                        asset("chat_template.jinja", "{{x}}")},
                       R"({"vocab_size": 6, "eos_token_id": 2, "pad_token_id": null})");
    EXPECT_EQ(text_at(found, "ggml.model"), "gpt2");
    EXPECT_EQ(text_at(found, "ggml.pre"), "llama-bpe");
    EXPECT_EQ(texts_at(found, "ggml.tokens"), (Texts{"h", "i", "hi", "<s>", "a b", "[PAD5]"}));
    EXPECT_EQ(numbers_at(found, "ggml.token_type"), (std::vector<std::int64_t>{1, 1, 1, 3, 4, 5}));
    EXPECT_EQ(texts_at(found, "ggml.merges"), (Texts{"h i", "ĠĠh i"}));
    EXPECT_EQ(find(found, "ggml.scores"), nullptr);
    EXPECT_EQ(numbers_at(found, "ggml.bos_token_id"), (std::vector<std::int64_t>{3}));
    EXPECT_EQ(numbers_at(found, "ggml.eos_token_id"), (std::vector<std::int64_t>{2}));
    EXPECT_EQ(find(found, "ggml.padding_token_id"), nullptr);
    EXPECT_EQ(numbers_at(found, "ggml.add_bos_token"), (std::vector<std::int64_t>{1}));
    EXPECT_EQ(text_at(found, "chat_template"), "{{x}}");
    ASSERT_EQ(found.warnings.size(), 1U);  // of the token beyond the vocabulary
    EXPECT_EQ(found.warnings.front().substr(0, 24), "1 token of the tokenizer");
}

TEST(GgufTokenizer, takes_all_chat_templates) {
    const auto with = [](const std::string& settings) {
        return gguf_tokenizer(
            {asset("tokenizer.json", bytes_json(kLlama3)), asset("tokenizer_config.json", settings),
             asset("chat_template.jinja", "{{x}}"),
             asset("additional_chat_templates/rag.jinja", "{{r}}"),
             asset("additional_chat_templates/tool-use.jinja", "{{t}}"),
             asset("additional_chat_templates/notes.txt", "no template")},
            R"({"vocab_size": 6})");
    };
    const GgufTokenizer found = with("{}");
    EXPECT_EQ(text_at(found, "chat_template"), "{{x}}");
    EXPECT_EQ(text_at(found, "chat_template.rag"), "{{r}}");
    EXPECT_EQ(text_at(found, "chat_template.tool_use"), "{{t}}");
    EXPECT_EQ(texts_at(found, "chat_templates"), (Texts{"rag", "tool_use"}));
    // The older list is all there is.
    const GgufTokenizer older = with(R"({"chat_template": [{"name": "default", "template": "{{d}}"},
                                   {"name": "tool_use", "template": "{{u}}"}]})");
    EXPECT_EQ(text_at(older, "chat_template"), "{{d}}");
    EXPECT_EQ(text_at(older, "chat_template.tool_use"), "{{u}}");
    EXPECT_EQ(texts_at(older, "chat_templates"), (Texts{"tool_use"}));
}

TEST(GgufTokenizer, says_which_way_of_splitting_it_does_not_know) {
    const GgufTokenizer found =
        gguf_tokenizer({asset("tokenizer.json", bytes_json("\\\\w+"))}, R"({"vocab_size": 10})");
    EXPECT_EQ(text_at(found, "ggml.pre"), "default");
    ASSERT_EQ(found.warnings.size(), 1U);
    EXPECT_NE(found.warnings.front().find("splits words"), std::string::npos);
}

TEST(GgufTokenizer, takes_pieces_from_merges) {
    const GgufTokenizer found =
        gguf_tokenizer({asset("tokenizer.json",
                              R"({"added_tokens": [{"id": 0, "content": "<unk>", "special": true}],
                   "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}]},
                   "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<unk>": 0, "<0x0A>": 1,
                             "a": 2, "b": 3, "ab": 4, "▁ab": 5}, "merges": ["a b", "▁ ab"]}})")},
                       "{}");
    EXPECT_EQ(text_at(found, "ggml.model"), "llama");
    EXPECT_EQ(numbers_at(found, "ggml.token_type"), (std::vector<std::int64_t>{3, 6, 1, 1, 1, 1}));
    ASSERT_NE(find(found, "ggml.scores"), nullptr);
    EXPECT_EQ(find(found, "ggml.scores")->reals, (std::vector<float>{-1000, 0, 0, 0, -1, -2}));
    EXPECT_EQ(numbers_at(found, "ggml.add_space_prefix"), (std::vector<std::int64_t>{1}));
    EXPECT_TRUE(found.warnings.empty());
}

/// A piece as sentencepiece_model.proto has it.
std::string piece(const std::string& text, float score, char type) {
    std::string inner = "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x15";
    const auto bits = std::bit_cast<std::uint32_t>(score);
    for (unsigned i = 0; i < 32; i += 8) {
        inner += static_cast<char>((bits >> i) & 0xFFU);
    }
    inner += std::string("\x18") + type;
    return "\x0a" + std::string(1, static_cast<char>(inner.size())) + inner;
}

TEST(GgufTokenizer, takes_sentencepiece) {
    const std::string model = piece("<unk>", 0, '\2') + piece("▁a", -1.5F, '\1') +
                              piece("<0x41>", 0, '\6') + std::string("\x12\x02\x18\x02", 4);
    const GgufTokenizer found = gguf_tokenizer({asset("tokenizer.model", model)},
                                               R"({"vocab_size": 4, "bos_token_id": 2})");
    EXPECT_EQ(texts_at(found, "ggml.tokens"), (Texts{"<unk>", "▁a", "<0x41>", "[PAD3]"}));
    EXPECT_EQ(find(found, "ggml.scores")->reals, (std::vector<float>{0, -1.5F, 0, -10000}));
    EXPECT_EQ(numbers_at(found, "ggml.token_type"), (std::vector<std::int64_t>{2, 1, 6, 5}));
    EXPECT_EQ(numbers_at(found, "ggml.add_space_prefix"), (std::vector<std::int64_t>{1}));
    for (std::size_t n = 0; n < model.size(); ++n) {
        const auto part = parse_pieces(std::string_view(model).substr(0, n));
        EXPECT_TRUE(!part || part->size() <= 3);
    }
    EXPECT_EQ(parse_pieces("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::nullopt);
}

TEST(GgufTokenizer, says_when_there_is_none) {
    for (const std::string& text :
         {std::string(""), std::string("[]"), std::string("{\"model\": 3}"),
          std::string(R"({"model": {"type": "BPE", "vocab": {"a": -1}}})"),
          std::string(R"({"model": {"type": "Unigram", "vocab": [["a", -1.0]]}})")}) {
        const GgufTokenizer found = gguf_tokenizer({asset("tokenizer.json", text)}, "{}");
        EXPECT_TRUE(found.keys.empty()) << text;
        EXPECT_EQ(found.warnings.size(), 1U) << text;
    }
}

}  // namespace
}  // namespace shardweld::app
