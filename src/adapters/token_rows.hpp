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

/// The tokens that adapter_config.json states for this module apart from others; nullopt where it
/// names other modules, one list for all, or none. Error(mismatch) for what is no list of tokens,
/// each once.
std::optional<std::vector<Index>> own_tokens_of(const ConfigFile& config, const std::string& path);

/// What is stored of them. Error(mismatch) where nothing says which tokens they are, or of how many
/// others, and where tokens are named of which nothing is stored.
std::vector<TokenRows> token_rows_of(std::span<const SavedTensor> tensors,
                                     const ConfigFile& config);

}  // namespace shardweld::adapters
