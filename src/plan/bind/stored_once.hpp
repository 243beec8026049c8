// Whether a target's elements are stored exactly once.
// Knows the layout algebra's check of covers; the words of errors are the callers'.
#pragma once

#include <string>
#include <vector>

#include "shardweld/layout/cover.hpp"

namespace shardweld::plan {

/// How `parts`, each inside the box of `wanted`, cover it: exact, gap or overlap.
/// Error(unsupported) naming `name` when there are too many parts to compare.
layout::Cover::Kind cover_by(const std::vector<layout::Patch>& parts, const layout::Patch& wanted,
                             const std::string& name);

}  // namespace shardweld::plan
