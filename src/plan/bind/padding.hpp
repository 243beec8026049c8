// What of a stored tensor only fills it up.
// Knows layouts with a `*`; what may be trimmed is for others to judge.
#pragma once

#include <vector>

#include "plan/binding.hpp"

#include "store_match.hpp"

namespace shardweld::plan {

/// Adds what the line drops of the tensor, if it drops anything. Error(mismatch) as the layout and
/// the rule's expression give them.
void add_padding(const catalogue::Tensor& tensor, const StoreMatch& match, const Model& model,
                 std::vector<Padding>& out);

}  // namespace shardweld::plan
