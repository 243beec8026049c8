// Axes that a dialect declares to be made of two (`fuse g = t gt`).
// Pure; knows patches and axis names, nothing of what they mean.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "instances.hpp"

namespace shardweld::plan {

/// Rules of a dialect: axis -> the two axes that make it up, outermost first.
using FuseRules = std::map<std::string, std::vector<std::string>>;

/// Replaces, in a plan and its patches, each pair of axes that makes up another one; `extents` are
/// those of the plan's axes. A patch that does not hold the pair as one run becomes several.
void fuse_axes(const FuseRules& rules, const std::vector<Index>& extents, SegmentPlan& plan,
               std::vector<layout::Patch>& patches);

}  // namespace shardweld::plan
