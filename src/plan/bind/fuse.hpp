// How the axes of one segment are filed, and those that a dialect declares to be made of two
// (`fuse g = t gt`).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/patch.hpp"

namespace shardweld::plan {

/// How one segment of one line's layout is filed: which axes stay, which become part of the key.
struct SegmentPlan {
    std::uint32_t id = 0;           ///< segment id
    std::vector<std::string> axes;  ///< of the lowered patch, in its order
    std::vector<int> key_slot;      ///< per axis: position in the key, or -1 for an axis that stays
    std::vector<std::pair<int, std::string>>
        captured;  ///< key positions filled by captures of the name
    std::size_t n_keys = 0;
    bool is_fused = false;    ///< fuse_axes changes it
    bool is_dropped = false;  ///< padding: the line says that it is not used
};

/// Values of SegmentPlan::key_slot beside key positions.
inline constexpr int kStays = -1;
inline constexpr int kGone = -2;  ///< an outer axis that was fused into another one
inline constexpr int kCopy = -3;  ///< an axis that counts equal copies

/// Error(mismatch) when what one tensor falls into are more parts than any model's layers times
/// experts; called before they are made.
void require_few_parts(Index n_parts);

/// Rules of a dialect: axis -> the two axes that make it up, outermost first.
using FuseRules = std::map<std::string, std::vector<std::string>>;

/// Whether a rule makes one axis of two of these.
bool is_fused(const FuseRules& rules, const std::vector<std::string>& axes);

/// Replaces, in a plan and its patches, each pair of axes that makes up another one; `extents` are
/// those of the plan's axes. A patch that does not hold the pair as one run becomes several.
void fuse_axes(const FuseRules& rules, const std::vector<Index>& extents, SegmentPlan& plan,
               std::vector<layout::Patch>& patches);

}  // namespace shardweld::plan
