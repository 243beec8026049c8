// How the axes of one segment are filed, and those that a dialect declares to be made of two
// (`fuse g = t gt`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "layout/patch.hpp"

namespace shardweld::plan {

/// Two axes of a patch that become one, at the place of the inner one.
struct FusedPair {
    std::size_t outer = 0;
    std::size_t inner = 0;
    std::size_t extent_at = 0;         ///< of the inner one's extent, among all that were lowered
    std::vector<std::size_t> swapped;  ///< axes that then change places with their next, in turn
};

/// How one segment of one line's layout is filed: which axes stay, which become part of the key.
struct SegmentPlan {
    std::uint32_t id = 0;           ///< segment id
    std::vector<std::string> axes;  ///< of the lowered patch, in its order, once pairs are fused
    std::vector<int> key_slot;      ///< per axis: position in the key, or -1 for an axis that stays
    std::vector<FusedPair> pairs;   ///< one after another
    std::vector<std::pair<int, std::string>>
        captured;  ///< key positions filled by captures of the name
    std::size_t n_keys = 0;
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

/// Replaces each pair of axes of a plan that makes up another one, and notes it.
void fuse_axes(const FuseRules& rules, SegmentPlan& plan);

/// The same in a patch, of at least one pair; `extents` are those of the axes as they were lowered.
/// One that does not hold a pair as one run becomes several.
std::vector<layout::Patch> fused(const std::vector<FusedPair>& pairs,
                                 const std::vector<Index>& extents, const layout::Patch& patch);

}  // namespace shardweld::plan
