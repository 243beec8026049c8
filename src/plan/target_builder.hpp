// Output tensors from what is stored: each hub name takes its segments from the filed instances.
// Knows instances and hub names; nothing of files' order or ranks.
#pragma once

#include "shardweld/plan/binding.hpp"

#include "instances.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

/// Appends a target for every hub name that the recipe expects, with operands that cover it exactly
/// once, and marks what was taken. Error(mismatch) for a name that nothing, too little or too much
/// is stored for.
void build_targets(const Model& model, const Wanted& wanted, const StoreMatcher& matcher,
                   Instances& instances, Binding& binding);

}  // namespace shardweld::plan
