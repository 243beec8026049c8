// Names that give away directories which this build does not read, so that errors can say what they
// are and who reads them. A format that comes to be read takes its row out of the table.
// Knows tell-tale names only.
#pragma once

#include <optional>
#include <string_view>

#include "directory_listing.hpp"

namespace shardweld::formats {

struct Sign {
    std::string_view what;    ///< "a DeepSpeed checkpoint"
    std::string_view remedy;  ///< what to do with it, in the imperative
};

/// nullopt when nothing gives the directory away.
std::optional<Sign> sign_in(const Listing& listing);

/// Whether a directory holds the weights of a finished HuggingFace model.
bool is_hf_model(const Listing& listing);

}  // namespace shardweld::formats
