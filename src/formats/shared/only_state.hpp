// A checkpoint without a model: the optimizer's half of a save, given alone.
// Knows the rows of what was left aside; nothing of formats.
#pragma once

#include <string>

#include "catalogue/catalogue.hpp"

namespace shardweld::formats {

/// Error(not_found) saying of `where` that it holds only optimizer (or other training) state, what
/// that is, and where the weights usually lie, unless `hint` knows better.
[[noreturn]] void refuse_only_state(const std::string& where, const catalogue::Catalogue& catalogue,
                                    const std::string& hint = "");

}  // namespace shardweld::formats
