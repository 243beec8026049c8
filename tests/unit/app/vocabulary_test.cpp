// Rows of the vocabulary that may be cut off, and the tokens that need theirs.
#include "app/family/vocabulary.hpp"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

namespace fs = std::filesystem;

Index count(const std::vector<publish::Asset>& assets) {
    const auto tokens = tokenizer_tokens(assets);
    return tokens ? tokens->count : 0;
}

/// Side files of a model.
class Tokenizer {
  public:
    void put(const std::string& name, const std::string& text) {
        std::erase_if(assets_, [&](const publish::Asset& asset) { return asset.name == name; });
        assets_.push_back({name, name, text});
    }
    [[nodiscard]] Index count() const { return app::count(assets_); }

  private:
    std::vector<publish::Asset> assets_;
};

TEST(TokenizerTokens, are_counted_in_each_kind_of_file) {
    Tokenizer tokenizer;
    EXPECT_EQ(tokenizer.count(), 0);
    tokenizer.put("tokenizer_config.json",
                  R"({"model_max_length": 1000000, "added_tokens_decoder": {"3": {"id": 900}}})");
    EXPECT_EQ(tokenizer.count(), 4);
    tokenizer.put("added_tokens.json", R"({"<a>": 5, "<b>": -1, "<c>": 1e9})");
    EXPECT_EQ(tokenizer.count(), 6);
    tokenizer.put("vocab.json", R"({"a": 0, "b": 6})");
    EXPECT_EQ(tokenizer.count(), 7);
    tokenizer.put("tokenizer.json", R"({"version": "1.0", "truncation": {"max_length": 512},
        "added_tokens": [{"id": 8, "content": "<x>"}], "post_processor": {"id": 600},
        "model": {"type": "BPE", "unk": 77, "vocab": {"a": 0, "b": 7}, "merges": [["a", "b"]]}})");
    EXPECT_EQ(tokenizer.count(), 9);
    tokenizer.put("tokenizer.json", R"({"model": {"type": "Unigram", "vocab":
        [["a", 0.5], ["b", 1], ["c", 2], ["d", 3], ["e", 4], ["f", 5], ["g", 6], ["h", 7], ["i", 8], ["j", 9]]}})");
    EXPECT_EQ(tokenizer.count(), 10);
}

TEST(TokenizerTokens, of_files_that_are_no_tokenizers_are_none) {
    Tokenizer tokenizer;
    for (const std::string& text :
         {std::string("{\"model\": {\"vocab\": {\"a\": 5"), std::string(100'000, '['),
          std::string(R"({"model": {"vocab": {"a": 99999999999999999999}}})"), std::string("7")}) {
        tokenizer.put("tokenizer.json", text);
        EXPECT_EQ(tokenizer.count(), 0) << text.substr(0, 50);
    }
}

TEST(TokenizerTokens, are_those_of_what_was_opened) {
    const fs::path directory = fs::path(testing::TempDir()) / "shardweld_tokenizer";
    fs::create_directories(directory);
    const auto put = [&](const std::string& name, const std::string& text) {
        fs::remove(directory / name);
        std::ofstream(directory / name) << text;
    };
    put("vocab.json", R"({"a": 6})");
    auto assets = publish::collect_assets(directory);
    put("vocab.json", R"({"a": 9})");
    EXPECT_EQ(count(assets), 7);
    // A file that is too large to be kept in memory, and was changed, is not used as a tokenizer.
    put("tokenizer.json", R"({"model": {"vocab": {"a": 6}}})" + std::string(100'000, ' '));
    assets = publish::collect_assets(directory);
    put("tokenizer.json", R"({"model": {"vocab": {"a": 9}}})");
    EXPECT_NE(test::error_text([&] { count(assets); }).find("tokenizer.json"), std::string::npos);
    fs::remove_all(directory);
}

std::string refusal(Index kept, Index dropped, std::optional<Index> below, Index n_tokens = 0) {
    std::optional<TokenizerTokens> tokens;
    if (n_tokens > 0) {
        tokens = {n_tokens, "tokenizer.json"};
    }
    return test::error_text([&] {
        require_only_padding({{"embedding", kept, dropped, below}}, tokens);
    });
}

TEST(Padding, is_what_the_rule_adds_and_no_token_needs) {
    EXPECT_EQ(refusal(251, 5, 128), "no error");
    EXPECT_EQ(refusal(129, 127, 128, 129), "no error");
    EXPECT_EQ(refusal(251, 5, {}), "no error");
    EXPECT_EQ(
        refusal(128, 128, 128),
        "mismatch: with vocab_size 128, 128 of the 256 rows of embedding would be cut off as "
        "padding, but the framework pads by less than 128 (make_vocab_size_divisible_by times "
        "tensor-parallel ranks); correct config.json's vocab_size, or, if the model is to have "
        "128 rows, give --vocab_size 128");
    EXPECT_NE(refusal(250, 6, 128, 251).find("tokenizer.json has 251 tokens"), std::string::npos);
}

TEST(Padding, is_told_in_one_line) {
    EXPECT_EQ(padding_notes({}), std::vector<std::string>());
    EXPECT_EQ(
        padding_notes({{"embedding", 251, 5, 128}, {"head", 251, 5, 128}}),
        std::vector<std::string>{"5 of the 256 rows of embedding, 5 of the 256 rows of head are "
                                 "vocabulary padding (vocab_size 251) and are not written"});
}

}  // namespace
}  // namespace shardweld::app
