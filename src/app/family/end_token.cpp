#include "end_token.hpp"

#include <algorithm>

#include "app/tokenizer/tokenizer_json.hpp"
#include "app/tokenizer/tokenizer_settings.hpp"

namespace shardweld::app {

namespace {

/// The number of a token that files name by its text.
std::optional<Index> number_of(const std::string& token, const TokenizerSettings& settings,
                               const std::optional<TokenizerJson>& words) {
    const auto in = [&](const std::vector<AddedToken>& added) -> std::optional<Index> {
        const auto at = std::ranges::find(added, token, &AddedToken::text);
        return at == added.end() ? std::nullopt : std::optional(at->id);
    };
    if (token.empty()) {
        return std::nullopt;
    }
    auto number = words ? in(words->added) : std::nullopt;
    if (!number) {
        number = in(settings.added);
    }
    if (!number && words) {
        const auto at = std::ranges::find_if(
            words->vocabulary, [&](const auto& entry) { return entry.second == token; });
        number = at == words->vocabulary.end() ? std::nullopt : std::optional(at->first);
    }
    return number;
}

}  // namespace

EndToken end_token(const std::string& config, const std::string& words) {
    const TokenizerSettings settings = parse_tokenizer_settings(config, {});
    const std::string text = settings.token("eos_token");
    return {text, number_of(text, settings, parse_tokenizer_json(words))};
}

}  // namespace shardweld::app
