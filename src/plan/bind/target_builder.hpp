// Output tensors from what is stored: each hub name takes its elements from the logical segments.
#pragma once

#include <span>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

#include "logical_segments.hpp"
#include "mismatches.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

/// Appends a target for every hub name that the recipe expects, with operands that cover it exactly
/// once, and marks what was taken. A mismatch is noted for a name that nothing, too little or too
/// much is stored for, unless what it needs was given up. `others`: stored tensors that no line
/// takes. False where so much is missing that nobody knows what the other names would have taken.
bool build_targets(const Model& model, const BindOptions& options, const StoreMatcher& matcher,
                   std::span<const catalogue::Tensor> others, Mismatches& mismatches,
                   LogicalSegments& segments, Binding& binding);

}  // namespace shardweld::plan
