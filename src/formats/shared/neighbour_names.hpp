// What names say of files that lie beside a model, and of directories that this build does not
// read.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "formats/format.hpp"

#include "directory_listing.hpp"

namespace shardweld::formats {

inline constexpr const char* kTrainingState = "training state";

/// What trainers leave beside any model.
std::span<const KnownName> common_names();

/// Whether a file of this name could hold weights: "model.safetensors", and copies such as
/// "model.safetensors.bak".
bool is_container(std::string_view name);

/// Whether a name matches a KnownName's pattern. Linear in the name for each '*'.
bool matches(std::string_view pattern, std::string_view name);

struct Sign {
    std::string_view what;    ///< "a DeepSpeed checkpoint"
    std::string_view remedy;  ///< what to do with it, in the imperative
};

/// nullopt when nothing gives the directory away.
std::optional<Sign> sign_in(const Listing& listing);

/// Whether a directory holds the weights of a finished HuggingFace model.
bool is_hf_model(const Listing& listing);

}  // namespace shardweld::formats
