// Stored names as the dialect's lines know them (its `alias` rules), and stacks of some layers
// taken apart. Knows names and first axes; nothing of what a line means.
#pragma once

#include "catalogue/catalogue.hpp"
#include "plan/binding.hpp"

namespace shardweld::plan {

/// Gives tensors the names that they stand for. A stacked one [L', ...] becomes L' tensors [...]:
/// the i-th holds what is stored at index i of the first axis, and has the i-th value of the rule's
/// capture for which its condition holds. Error(mismatch) when L' is another number, or a name
/// comes up twice.
void apply_aliases(catalogue::Catalogue& catalogue, const Model& model);

}  // namespace shardweld::plan
