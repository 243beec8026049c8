// Names that llama.cpp has for the ways in which byte-level BPE splits texts into words. Source:
// its convert_hf_to_gguf and llama-vocab.cpp, which knows several names for one way.
#pragma once

#include <optional>
#include <string>

#include "tokenizer_json.hpp"

namespace shardweld::app {

/// The value of tokenizer.ggml.pre; nullopt for a way that this table does not have.
std::optional<std::string> pre_tokenizer_of(const SplitSteps& splits);

}  // namespace shardweld::app
