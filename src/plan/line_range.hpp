// Parts of the output line: all tensor bytes in file order.
#pragma once

#include <span>
#include <vector>

#include "core/index.hpp"

namespace shardweld::plan {

/// A part [begin, end) of the output line.
struct LineRange {
    Bytes begin = 0;
    Bytes end = 0;
    friend bool operator==(const LineRange&, const LineRange&) = default;
};

/// Sorted ranges of these bytes, none empty, none touching another.
std::vector<LineRange> united(std::vector<LineRange> ranges);

/// The parts of `whole` that no range of a united list holds, in the same form.
std::vector<LineRange> without(LineRange whole, std::span<const LineRange> ranges);

/// The parts of `whole` that each of some united lists holds.
std::vector<LineRange> in_all(LineRange whole, std::span<const std::vector<LineRange>> lists);

/// Bytes of ranges that do not overlap.
Bytes total_of(std::span<const LineRange> ranges);

/// The position at which the `n`-th byte lies that no range of a united list holds; the last
/// range's end or more when there are not so many before.
Bytes position_outside(Bytes n, std::span<const LineRange> ranges);

}  // namespace shardweld::plan
