// Rows of an embedding that were trained on their own (PEFT's trainable_token_indices). They stand
// in the place of the base's, as PEFT's TrainableTokensLayer merges them (peft 0.21).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "declared.hpp"
#include "peft_names.hpp"

namespace shardweld::adapters {

/// The field that names the tokens: a list, or one for each module.
inline constexpr const char* kTokens = "trainable_token_indices";

/// The tokens that adapter_config.json states for a module; nullopt where it names another one, or
/// none. Error(mismatch) for what is no list of tokens, each once.
std::optional<std::vector<Index>> tokens_of(const ConfigFile& config, const std::string& path);

/// What is stored of them. Error(mismatch) where nothing says which tokens they are, or of how many
/// others, and where tokens are named of which nothing is stored.
std::vector<TokenRows> token_rows_of(std::span<const SavedTensor> tensors,
                                     const ConfigFile& config);

}  // namespace shardweld::adapters
