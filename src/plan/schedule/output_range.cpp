#include "plan/output_range.hpp"

#include <algorithm>
#include <numeric>

#include "core/lists.hpp"

namespace shardweld::plan {

std::vector<OutputRange> united(std::vector<OutputRange> ranges) {
    std::ranges::sort(ranges, {}, &OutputRange::begin);
    std::vector<OutputRange> whole;
    for (const OutputRange& range : ranges) {
        if (range.begin >= range.end) {
            continue;
        }
        if (!whole.empty() && range.begin <= whole.back().end) {
            whole.back().end = std::max(whole.back().end, range.end);
        } else {
            whole.push_back(range);
        }
    }
    return whole;
}

std::vector<OutputRange> without(OutputRange whole, std::span<const OutputRange> ranges) {
    std::vector<OutputRange> left;
    const auto first =
        std::partition_point(ranges.begin(), ranges.end(),
                             [&](const OutputRange& range) { return range.end <= whole.begin; });
    Bytes at = whole.begin;
    for (auto range = first; range != ranges.end() && range->begin < whole.end; ++range) {
        if (at < range->begin) {
            left.push_back({at, range->begin});
        }
        at = range->end;
    }
    if (at < whole.end) {
        left.push_back({at, whole.end});
    }
    return left;
}

std::vector<OutputRange> in_all(OutputRange whole,
                                std::span<const std::vector<OutputRange>> lists) {
    std::vector<OutputRange> missing;
    for (const std::vector<OutputRange>& list : lists) {
        const auto left = without(whole, list);
        append_all(missing, left);
    }
    return without(whole, united(std::move(missing)));
}

Bytes total_of(std::span<const OutputRange> ranges) {
    return std::accumulate(
        ranges.begin(), ranges.end(), Bytes{0},
        [](Bytes sum, const OutputRange& range) { return sum + (range.end - range.begin); });
}

Bytes position_outside(Bytes n, std::span<const OutputRange> ranges) {
    for (const OutputRange& range : ranges) {
        if (n < range.begin) {
            break;
        }
        n += range.end - range.begin;
    }
    return n;
}

}  // namespace shardweld::plan
