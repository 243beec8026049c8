#include "reading.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace shardweld::plan {

namespace {

using layout::Copy;
using layout::Loop;

/// A typical round's part of a copy, and how often it comes. In normal form the loops go from the
/// widest destination stride to the narrowest: rounds cut the outer ones.
std::pair<Copy, double> part_of_round(Copy copy, Index round) {
    double times = 1;
    for (Loop& loop : copy.loops) {
        if (loop.dst_stride * loop.extent <= round) {
            break;
        }
        const Index turns = std::clamp<Index>(round / loop.dst_stride, 1, loop.extent);
        times *= static_cast<double>(loop.extent) / static_cast<double>(turns);
        loop.extent = turns;
        if (loop.dst_stride <= round) {
            break;
        }
    }
    return {std::move(copy), times};
}

/// Elements of the runs that are contiguous on both sides.
Index run_of(const Copy& copy) {
    for (const Loop& loop : copy.loops) {
        if (loop.src_stride == 1 && loop.dst_stride == 1) {
            return loop.extent;
        }
    }
    return 1;
}

/// Reads of short runs: turns with large gaps between them each have a window of their own, smaller
/// gaps are read.
Reading in_windows(Copy copy, const ReadingSteps& steps) {
    const Bytes volume = static_cast<Bytes>(copy.volume()) * steps.element_bytes;
    Index n_windows = 1;
    Index span = layout::src_span(copy).extent;
    while (!copy.loops.empty()) {
        const auto widest = std::ranges::max_element(
            copy.loops, [](const Loop& a, const Loop& b) { return a.src_stride < b.src_stride; });
        const Index inner = span - (widest->extent - 1) * widest->src_stride;
        const Index gap = widest->src_stride - inner;
        if (gap <= 0 || static_cast<Bytes>(gap) * steps.element_bytes <= kSmallGap) {
            break;
        }
        n_windows *= widest->extent;
        span = inner;
        copy.loops.erase_at(static_cast<std::size_t>(widest - copy.loops.begin()));
    }
    const Bytes bytes = static_cast<Bytes>(span) * steps.element_bytes;
    const Bytes reads = (bytes + steps.window - 1) / steps.window;
    return {n_windows * static_cast<Index>(reads), static_cast<Bytes>(n_windows) * bytes, volume};
}

Reading in_one_round(const Copy& copy, const ReadingSteps& steps) {
    const Copy placed = steps.is_sent ? layout::normal(layout::pack_unpack(copy).first) : copy;
    const Index run = run_of(placed);
    if (static_cast<Bytes>(run) * steps.element_bytes >= kLongRun) {
        const Index volume = copy.volume();
        return {volume / run, static_cast<Bytes>(volume) * steps.element_bytes, 0};
    }
    return in_windows(placed, steps);
}

}  // namespace

Reading reading_of(const Copy& copy, const ReadingSteps& steps) {
    const Index volume = copy.volume();
    if (volume == 0) {
        return {};
    }
    const Bytes bytes = static_cast<Bytes>(volume) * steps.element_bytes;
    // Most are one run, of which a round has a part.
    const Index run = std::min(run_of(copy), std::max<Index>(steps.round, 1));
    if (copy.loops.size() == 1 && static_cast<Bytes>(run) * steps.element_bytes >= kLongRun) {
        return {std::max((volume + run - 1) / run, steps.n_rounds), bytes, 0};
    }
    const auto [part, typical] = part_of_round(copy, steps.round);
    const double times = std::max(typical, static_cast<double>(steps.n_rounds));
    const Reading once = in_one_round(part, steps);
    const Bytes needed = static_cast<Bytes>(part.volume()) * steps.element_bytes;
    const auto all = [&](auto value) { return std::ceil(static_cast<double>(value) * times); };
    const Bytes gaps = once.bytes > needed ? static_cast<Bytes>(all(once.bytes - needed)) : 0;
    return {static_cast<Index>(all(once.requests)), bytes + gaps, once.copied > 0 ? bytes : 0};
}

}  // namespace shardweld::plan
