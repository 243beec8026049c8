// Names for directories that this build does not read, so that errors can say what they are.
// Knows tell-tale file names only.
#pragma once

#include <optional>
#include <string>

#include "directory.hpp"

namespace shardweld::formats {

/// "a verl FSDP checkpoint", "a DeepSpeed checkpoint"...; nullopt when nothing gives it away.
std::optional<std::string> foreign_layout(const Listing& listing);

/// Whether a directory holds the weights of a finished HuggingFace model.
bool is_hf_model(const Listing& listing);

}  // namespace shardweld::formats
