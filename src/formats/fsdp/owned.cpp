#include "owned.hpp"

#include <algorithm>
#include <string>

#include "shardweld/error.hpp"

namespace shardweld::formats::fsdp {

namespace {

using layout::Range;

Index piece_length(Index length, Index pieces) {
    return length / pieces + (length % pieces == 0 ? 0 : 1);
}

// Piece `at` of [0, length); lengths come from shapes whose volume fits an Index.
Range piece(Index length, Index pieces, Index at) {
    const Index step = piece_length(length, pieces);
    const Index last = step == 0 ? 0 : length / step;  // begins at or before the end
    const Index begin = at > last ? length : std::min(at * step, length);
    return {begin, std::min(step, length - begin)};
}

// The positions that a cut takes of a list of `length` elements.
Runs positions(const DimCut& cut, Index length) {
    const Index step = piece_length(length, cut.groups);
    const Index n_groups = step == 0 ? 0 : piece_length(length, step);
    if (n_groups > static_cast<Index>(kMostRuns)) {
        throw Error(ErrorCode::unsupported, "a strided shard divides one dimension into " +
                                                std::to_string(n_groups) + " parts, more than " +
                                                std::to_string(kMostRuns));
    }
    Runs taken;
    for (Index group = 0; group < n_groups; ++group) {
        const Index begin = group * step;
        const Range part = piece(std::min(step, length - begin), cut.pieces, cut.coordinate);
        if (part.extent > 0) {
            taken.push_back({begin + part.lo, part.extent});
        }
    }
    return taken;
}

void append(Runs& runs, Range more) {
    if (!runs.empty() && runs.back().lo + runs.back().extent == more.lo) {
        runs.back().extent += more.extent;
        return;
    }
    if (runs.size() == kMostRuns) {
        throw Error(ErrorCode::unsupported, "a rank's part of one dimension falls into more than " +
                                                std::to_string(kMostRuns) + " ranges");
    }
    runs.push_back(more);
}

// The elements of `runs` at ascending `taken` positions; one pass over both.
Runs select(const Runs& runs, const Runs& taken) {
    Runs selected;
    std::size_t at = 0;
    Index before = 0;  // elements in runs before `at`
    for (Range wanted : taken) {
        while (wanted.extent > 0) {
            while (before + runs[at].extent <= wanted.lo) {
                before += runs[at++].extent;
            }
            const Index skipped = wanted.lo - before;
            const Index count = std::min(wanted.extent, runs[at].extent - skipped);
            append(selected, {runs[at].lo + skipped, count});
            wanted = {wanted.lo + count, wanted.extent - count};
        }
    }
    return selected;
}

}  // namespace

Index length_of(const Runs& runs) {
    Index length = 0;
    for (const Range& run : runs) {
        length += run.extent;
    }
    return length;
}

std::vector<Runs> owned(std::span<const Index> shape, std::span<const DimCut> cuts) {
    std::vector<Runs> left;
    for (const Index extent : shape) {
        left.push_back(extent > 0 ? Runs{{0, extent}} : Runs{});
    }
    for (const DimCut& cut : cuts) {
        Runs& runs = left.at(cut.dim);
        runs = select(runs, positions(cut, length_of(runs)));
    }
    return left;
}

}  // namespace shardweld::formats::fsdp
