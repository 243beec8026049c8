// Where stored pieces and wanted patches share elements.
#pragma once

#include <vector>

#include "layout/patch.hpp"
#include "plan/plan.hpp"

#include "logical_segments.hpp"

namespace shardweld::plan {

/// Adds the runs of elements in memory that a patch is made of.
void add_runs(const layout::Patch& patch, std::vector<layout::Range>& runs);

/// Overlaps of a segment's sources with one target patch; counts what primaries took.
struct Overlaps {
    std::vector<Operand> primary;
    std::vector<Operand> replicas;
    std::vector<Operand> same;
    std::vector<layout::Patch> clipped;  ///< primaries inside the target patch
    Index volume = 0;
};

/// Adds those with the patch `wanted`.
void overlap_into(const LogicalSegment& segment, const layout::Patch& wanted, Overlaps& found);

}  // namespace shardweld::plan
