#include "vocabulary_padding.hpp"

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kInnerField = "text_config.vocab_size";

std::string rows_text(const plan::Padding& one) {
    return std::to_string(one.dropped) + " of the " + std::to_string(one.kept + one.dropped) +
           " rows of " + one.stored_name;
}

[[noreturn]] void refuse_cut(const plan::Padding& one, const std::string& why) {
    const std::string kept = std::to_string(one.kept);
    throw Error(ErrorCode::mismatch,
                "with " + std::string(kVocabularyField) + " " + kept + ", " + rows_text(one) +
                    " would be cut off as padding, but " + why,
                std::string("correct config.json's ") + kVocabularyField +
                    ", or, if the model is to have " + kept + " rows, give --vocab_size " + kept);
}

}  // namespace

void set_vocabulary(models::Config& config, Index size) {
    const std::string text = std::to_string(size);
    config.set(kVocabularyField, text);
    if (config.integer(kInnerField)) {
        config.set(kInnerField, text);
    }
}

std::map<std::string, Index> known_facts(const catalogue::Catalogue& catalogue,
                                         const models::Dialect& dialect) {
    std::map<std::string, Index> facts = catalogue.facts;
    for (const std::string& name : dialect.facts) {
        const auto claim = catalogue.claims.find(name);
        const auto number =
            claim == catalogue.claims.end() ? std::nullopt : parse_index(claim->second);
        if (number) {
            facts.emplace(name, *number);
        }
    }
    return facts;
}

void require_only_padding(const std::vector<plan::Padding>& padding,
                          const std::optional<TokenizerTokens>& tokens) {
    for (const plan::Padding& one : padding) {
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

}  // namespace shardweld::app
