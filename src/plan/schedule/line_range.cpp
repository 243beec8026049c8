#include "plan/line_range.hpp"

#include <algorithm>
#include <numeric>

namespace shardweld::plan {

std::vector<LineRange> united(std::vector<LineRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const LineRange& a, const LineRange& b) { return a.begin < b.begin; });
    std::vector<LineRange> whole;
    for (const LineRange& range : ranges) {
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

std::vector<LineRange> without(LineRange whole, std::span<const LineRange> ranges) {
    std::vector<LineRange> left;
    const auto first =
        std::partition_point(ranges.begin(), ranges.end(),
                             [&](const LineRange& range) { return range.end <= whole.begin; });
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

std::vector<LineRange> in_all(LineRange whole, std::span<const std::vector<LineRange>> lists) {
    std::vector<LineRange> missing;
    for (const std::vector<LineRange>& list : lists) {
        const auto left = without(whole, list);
        missing.insert(missing.end(), left.begin(), left.end());
    }
    return without(whole, united(std::move(missing)));
}

Bytes total_of(std::span<const LineRange> ranges) {
    return std::accumulate(
        ranges.begin(), ranges.end(), Bytes{0},
        [](Bytes sum, const LineRange& range) { return sum + (range.end - range.begin); });
}

Bytes position_outside(Bytes n, std::span<const LineRange> ranges) {
    for (const LineRange& range : ranges) {
        if (n < range.begin) {
            break;
        }
        n += range.end - range.begin;
    }
    return n;
}

}  // namespace shardweld::plan
