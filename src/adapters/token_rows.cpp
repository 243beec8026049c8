#include "token_rows.hpp"

#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "target_modules.hpp"

namespace shardweld::adapters {

namespace {

// A list of tokens, or one for each module.
constexpr const char* kTokens = "trainable_token_indices";
constexpr const char* kWholeSave = "give a save that has both the rows and its adapter_config.json";

std::vector<Index> tokens_in(const nlohmann::ordered_json& list, const ConfigFile& config) {
    std::vector<Index> tokens;
    std::set<Index> seen;
    bool is_list = list.is_array();
    for (const auto& token : is_list ? list : nlohmann::ordered_json::array()) {
        is_list = is_list && token.is_number_unsigned() &&
                  seen.insert(token.template get<Index>()).second;
        tokens.push_back(is_list ? token.template get<Index>() : 0);
    }
    if (!is_list) {
        throw Error(ErrorCode::mismatch,
                    config.path + ": " + kTokens + " is no list of tokens, each named once",
                    "correct it");
    }
    return tokens;
}

/// The tokens stated for this module apart from others; nullopt where other modules are named, one
/// list for all, or none.
std::optional<std::vector<Index>> own_tokens_of(const ConfigFile& config, const std::string& path) {
    const auto* const tokens = stated(config.json(), kTokens);
    if (tokens == nullptr || !tokens->is_object()) {
        return std::nullopt;
    }
    for (const auto& [module, list] : tokens->items()) {
        if (names_it(module, path)) {
            return tokens_in(list, config);
        }
    }
    return std::nullopt;
}

}  // namespace

bool has_own_tokens(const ConfigFile& config, const std::string& head,
                    const std::string& embedding) {
    const auto tokens = own_tokens_of(config, head);
    return tokens && tokens != own_tokens_of(config, embedding);
}

std::vector<TokenRows> token_rows_of(std::span<const SavedTensor> tensors,
                                     const ConfigFile& config) {
    const auto* const listed_tokens = stated(config.json(), kTokens);
    const bool is_for_all = listed_tokens != nullptr && !listed_tokens->is_object();
    std::vector<TokenRows> found;
    for (const std::size_t i : indices(tensors)) {
        const PeftName name = read_name(tensors[i].name);
        if (name.role != TensorRole::rows) {
            continue;
        }
        const std::vector<Index>& shape = tensors[i].shape;
        auto tokens = is_for_all ? std::optional(tokens_in(*listed_tokens, config))
                                 : own_tokens_of(config, name.module_name);
        if (!tokens || shape.size() != 2 || std::ssize(*tokens) != shape[0]) {
            throw Error(ErrorCode::mismatch,
                        printable(tensors[i].name) + " is " + shape_text(shape) + ", but " +
                            config.path + " (" + kTokens + ") names " +
                            (tokens ? std::to_string(tokens->size()) : std::string("no")) +
                            " tokens of " + printable(name.module_name),
                        kWholeSave);
        }
        found.push_back({name.module_name, i, *std::move(tokens), shape[1]});
    }
    if (found.empty() && listed_tokens != nullptr && !listed_tokens->empty()) {
        throw Error(ErrorCode::mismatch,
                    config.path + " says " + kTokens +
                        ", but no trainable_tokens_delta is stored: the checkpoint is incomplete",
                    kWholeSave);
    }
    return found;
}

}  // namespace shardweld::adapters
