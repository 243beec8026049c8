// What the names of files say that lie beside a model.
// Knows names only.
#pragma once

#include <span>
#include <string_view>

#include "formats/format.hpp"

namespace shardweld::formats {

inline constexpr const char* kTrainingState = "training state";

/// What trainers leave beside any model.
std::span<const KnownName> common_names();

/// Whether a file of this name could hold weights: "model.safetensors", and copies such as
/// "model.safetensors.bak".
bool is_container(std::string_view name);

/// Whether a name matches a KnownName's pattern. Linear in the name for each '*'.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace shardweld::formats
