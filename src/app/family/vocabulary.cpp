#include "vocabulary.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "catalogue/catalogue.hpp"
#include "core/json.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;

constexpr Bytes kLargestTokenizer = Bytes{256} << 20U;
// More than any vocabulary has: a larger number is not a token's.
constexpr Index kMostTokens = 1 << 24;

/// Names, and whether the whole file is one object of tokens and their numbers.
constexpr std::array<std::pair<const char*, bool>, 4> kFiles = {{{"tokenizer.json", false},
                                                                 {"vocab.json", true},
                                                                 {"added_tokens.json", true},
                                                                 {"tokenizer_config.json", false}}};

/// An object or a list that is open, and what of it is being read.
struct Level {
    bool is_list = false;
    std::string key;
    Index at = -1;
};

/// Hears a file value by value, as 30 MB are common, and keeps the largest number of a token.
class TokenCounter final : public nlohmann::json_sax<Json> {
  public:
    explicit TokenCounter(bool is_flat) : is_flat_(is_flat) {}

    [[nodiscard]] Index count() const { return count_; }

    bool start_object(std::size_t /*size*/) override { return open(false); }
    bool start_array(std::size_t /*size*/) override { return open(true); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(std::string& name) override {
        levels_.back().key = name;
        if (levels_.size() == 2 && levels_.front().key == "added_tokens_decoder") {
            note(parse_index(name).value_or(-1));
        }
        return true;
    }
    bool number_unsigned(std::uint64_t value) override {
        step();
        if (is_tokens_number()) {
            note(value < static_cast<std::uint64_t>(kMostTokens) ? static_cast<Index>(value) : -1);
        }
        return true;
    }
    bool number_integer(std::int64_t /*value*/) override { return step(); }
    bool null() override { return step(); }
    bool boolean(bool /*value*/) override { return step(); }
    bool number_float(double /*value*/, const std::string& /*text*/) override { return step(); }
    bool string(std::string& /*value*/) override { return step(); }
    bool binary(Json::binary_t& /*value*/) override { return step(); }
    bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        count_ = 0;
        return false;
    }

  private:
    bool step() {
        if (!levels_.empty() && levels_.back().is_list) {
            ++levels_.back().at;
        }
        return true;
    }

    bool open(bool is_list) {
        step();
        // Unigram: `model.vocab` lists [token, score].
        if (is_list && levels_.size() == 3 && is_below("model", "vocab") &&
            levels_.back().is_list) {
            note(levels_.back().at);
        }
        levels_.push_back({is_list, "", -1});
        return true;
    }

    bool close() {
        levels_.pop_back();
        return true;
    }

    [[nodiscard]] bool is_below(std::string_view first, std::string_view second) const {
        return levels_[0].key == first && levels_[1].key == second;
    }

    [[nodiscard]] bool is_tokens_number() const {
        if (is_flat_) {
            return levels_.size() == 1;
        }
        const bool is_in_vocabulary = levels_.size() == 3 && is_below("model", "vocab");
        const bool is_added =
            levels_.size() == 3 && levels_[0].key == "added_tokens" && levels_[2].key == "id";
        return is_in_vocabulary || is_added;
    }

    void note(Index number) {
        if (number < kMostTokens) {
            count_ = std::max(count_, number + 1);
        }
    }

    bool is_flat_;
    std::vector<Level> levels_;
    Index count_ = 0;
};

Index tokens_in(const publish::Asset& asset, bool is_flat) {
    TokenCounter counter(is_flat);
    (void)hear_json<Json>(asset.read_text(kLargestTokenizer).value_or(""), counter);
    return counter.count();
}

constexpr const char* kInnerField = "text_config.vocab_size";
constexpr const char* kVocabularyOption = "--vocab_size";

std::string rows_text(const plan::Padding& one) {
    return std::to_string(one.dropped) + " of the " + std::to_string(one.kept + one.dropped) +
           " rows of " + one.stored_name;
}

[[noreturn]] void refuse_cut(const plan::Padding& one, const std::string& why) {
    const std::string kept = std::to_string(one.kept);
    const std::string by_hand =
        ", or, if the model is to have " + kept + " rows, give --vocab_size " + kept;
    throw Error(
        ErrorCode::mismatch,
        "with " + std::string(kVocabularyField) + " " + kept + ", " + rows_text(one) +
            " would be cut off as padding, but " + why,
        std::string("correct config.json's ") + kVocabularyField + (one.kept > 0 ? by_hand : ""));
}

}  // namespace

std::optional<TokenizerTokens> tokenizer_tokens(const std::vector<publish::Asset>& assets) {
    TokenizerTokens most;
    for (const auto& [name, is_flat] : kFiles) {
        for (const publish::Asset& asset : assets) {
            const Index count = asset.name == name ? tokens_in(asset, is_flat) : 0;
            if (count > most.count) {
                most = {count, asset.source.string()};
            }
        }
    }
    return most.count > 0 ? std::optional(most) : std::nullopt;
}

void set_vocabulary(models::Config& config, Index size) {
    const std::string text = std::to_string(size);
    config.set(kVocabularyField, text);
    if (config.integer(kInnerField)) {
        config.set(kInnerField, text);
    }
}

std::map<std::string, std::string> fields_of_vocabulary() {
    return {{kVocabularyField, kVocabularyOption}, {kInnerField, kVocabularyOption}};
}

std::map<std::string, Index> known_facts(const catalogue::Catalogue& catalogue,
                                         const models::Dialect& dialect) {
    std::map<std::string, Index> facts = catalogue.facts;
    for (const std::string& name : dialect.facts) {
        auto* const claim = find_value(catalogue.claims, name);
        const auto number = claim == nullptr ? std::nullopt : parse_index(*claim);
        if (number) {
            facts.emplace(name, *number);
        }
    }
    return facts;
}

void require_only_padding(const std::vector<plan::Padding>& padding,
                          const std::optional<TokenizerTokens>& tokens) {
    for (const plan::Padding& one : padding) {
        if (one.kept == 0) {
            refuse_cut(one, "no row would be left");
        }
        if (one.below && one.dropped >= *one.below) {
            refuse_cut(one, "the framework pads by less than " + std::to_string(*one.below) +
                                " (make_vocab_size_divisible_by times tensor-parallel ranks)");
        }
        if (tokens && tokens->count > one.kept) {
            refuse_cut(
                one, printable(tokens->file) + " has " + std::to_string(tokens->count) + " tokens");
        }
    }
}

std::vector<std::string> padding_notes(const std::vector<plan::Padding>& padding) {
    const std::string text = joined(padding, ", ", rows_text);
    if (text.empty()) {
        return {};
    }
    return {text + " are vocabulary padding (vocab_size " + std::to_string(padding.front().kept) +
            ") and are not written"};
}

std::optional<Index> embedding_rows(const catalogue::Catalogue& catalogue) {
    constexpr std::string_view kEmbedding = "embedding.word_embeddings.weight";
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        if (tensor.name.ends_with(kEmbedding) && !tensor.shape.empty()) {
            return tensor.shape.front();
        }
    }
    Index rows = 0;
    for (const catalogue::Shard& shard : catalogue.shards) {
        const bool is_one = shard.name.text().ends_with(kEmbedding) && !shard.shape.empty() &&
                            shard.piece.replica == 0;
        // Each tensor-parallel rank's; data-parallel and expert-parallel ranks have copies.
        if (is_one && shard.at.pp <= 0 && shard.at.vpp <= 0 && shard.at.ep <= 0) {
            rows += shard.shape.front();
        }
    }
    return rows > 0 ? std::optional(rows) : std::nullopt;
}

}  // namespace shardweld::app
