// Two outputs that are made from one read: which elements of one are which of the other.
#pragma once

#include <cstdint>
#include <vector>

#include "core/index.hpp"
#include "layout/copy.hpp"

namespace shardweld::plan {

struct Target;

/// What a target of an output has in common with a target of another one, the primary output.
/// Elements are those of weights, also where codes are written.
struct OutputMapping {
    std::uint32_t primary = 0;
    std::uint32_t own = 0;
    Index first = 0;  ///< elements [first, first + volume) of the own target are the primary's
    Index volume = 0;
    Index unit = 1;      ///< each so many elements of the primary hold ...
    Index own_unit = 1;  ///< ... so many own ones, which stand in the same order of units
    std::vector<layout::Copy> copies;  ///< from the primary's elements to the own ones

    /// Same elements in the same order.
    [[nodiscard]] bool is_straight() const { return unit == 1 && own_unit == 1; }
};

/// Elements of the weight that a target is made of; none where it is made of nothing stored.
Index weight_volume(const Target& target);

/// In the order of the own targets. Error(unsupported) naming one of which some elements are none
/// of the primary output's, or lie between others.
std::vector<OutputMapping> relations_of(const std::vector<Target>& primary,
                                        const std::vector<Target>& own);

/// Gives targets strips that rounds of the primary output need not divide: whole tiles of each
/// output that is made of codes, and whole units of what is in another order. Error(unsupported) as
/// above.
void share_strips(std::vector<Target>& primary, const std::vector<std::vector<Target>*>& others);

}  // namespace shardweld::plan
