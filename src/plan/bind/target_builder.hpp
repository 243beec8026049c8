// Output tensors from what is stored: each hub name takes its elements from the logical segments.
#pragma once

#include <span>

#include "catalogue/tensor.hpp"
#include "plan/binding.hpp"

#include "logical_segments.hpp"
#include "mismatches.hpp"
#include "store_match.hpp"

namespace shardweld::plan {

/// Who tells what stored tensors are called, and where contradictions are noted.
struct TargetContext {
    const StoreMatcher& matcher;
    Mismatches& mismatches;
    std::span<const catalogue::Tensor> others;  ///< stored, and taken by no line
    const Mismatches::Explain& explain;
};

/// Appends a target for every hub name that the recipe expects, with operands that cover it exactly
/// once, and marks what was taken. A mismatch is noted for a name that nothing, too little or too
/// much is stored for, unless what it needs was given up.
void build_targets(const Model& model, const BindOptions& options, TargetContext surroundings,
                   LogicalSegments& segments, Binding& binding);

}  // namespace shardweld::plan
