// Ranges of the output space, which is all tensor bytes in file order.
#pragma once

#include <span>
#include <vector>

#include "core/index.hpp"

namespace shardweld::plan {

/// A part [begin, end) of the output space.
struct OutputRange {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const OutputRange&, const OutputRange&) = default;
};

/// Sorted ranges of these bytes, none empty, none touching another.
std::vector<OutputRange> united(std::vector<OutputRange> ranges);

/// The parts of `whole` that no range of a united list holds, in the same form.
std::vector<OutputRange> without(OutputRange whole, std::span<const OutputRange> ranges);

/// The parts of `whole` that each of some united lists holds.
std::vector<OutputRange> in_all(OutputRange whole, std::span<const std::vector<OutputRange>> lists);

/// Bytes of ranges that do not overlap.
Bytes total_of(std::span<const OutputRange> ranges);

/// The position at which the `n`-th byte lies that no range of a united list holds; the last
/// range's end or more when there are not so many before.
Bytes position_outside(Bytes n, std::span<const OutputRange> ranges);

}  // namespace shardweld::plan
