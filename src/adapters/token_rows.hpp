// Rows of an embedding that were trained on their own (PEFT's trainable_token_indices). They stand
// in the place of the base's, as PEFT's TrainableTokensLayer merges them (peft 0.21).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "declared.hpp"
#include "peft_names.hpp"

namespace shardweld::adapters {

/// Whether adapter_config.json states tokens of its own for a head that is tied to an embedding:
/// then the rows of each are trained apart. Error(mismatch) for what is no list of tokens, each
/// once.
bool has_own_tokens(const ConfigFile& config, const std::string& head,
                    const std::string& embedding);

/// What is stored of them. Error(mismatch) where nothing says which tokens they are, or of how many
/// others, and where tokens are named of which nothing is stored.
std::vector<TokenRows> token_rows_of(std::span<const SavedTensor> tensors,
                                     const ConfigFile& config);

}  // namespace shardweld::adapters
