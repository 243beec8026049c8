// Patches and copies as the plain relations they stand for, and random ones; for small cases only.
// Knows nothing of how the library computes: every element is enumerated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "layout/copy.hpp"
#include "layout/patch.hpp"

namespace shardweld::layout::test {

using Indices = std::vector<Index>;
/// Logical index -> storage address.
using Meaning = std::map<Indices, Index>;
/// Pairs of source and destination addresses; a multiset, so that doubling shows.
using Relation = std::multiset<std::pair<Index, Index>>;

/// Calls visit(j) for all 0 <= j_k < extents_k, last fastest.
inline void for_each_index(const Indices& extents,
                           const std::function<void(const Indices&)>& visit) {
    if (std::find(extents.begin(), extents.end(), 0) != extents.end()) {
        return;
    }
    Indices j(extents.size(), 0);
    while (true) {
        visit(j);
        std::size_t k = extents.size();
        while (k > 0 && ++j[k - 1] == extents[k - 1]) {
            j[--k] = 0;
        }
        if (k == 0) {
            return;
        }
    }
}

inline Meaning meaning_of(const Patch& p) {
    Indices extents;
    for (const Axis& axis : p.axes) {
        extents.push_back(axis.extent);
    }
    Meaning meaning;
    for_each_index(extents, [&](const Indices& j) {
        Indices at;
        Index address = p.offset;
        for (std::size_t k = 0; k < j.size(); ++k) {
            at.push_back(p.axes[k].lo + j[k]);
            address += j[k] * p.axes[k].stride;
        }
        meaning[at] = address;
    });
    return meaning;
}

inline Relation relation_of(const Copy& copy) {
    Indices extents;
    for (const Loop& loop : copy.loops) {
        extents.push_back(loop.extent);
    }
    Relation relation;
    for_each_index(extents, [&](const Indices& j) {
        std::pair<Index, Index> pair{copy.src_offset, copy.dst_offset};
        for (std::size_t k = 0; k < j.size(); ++k) {
            pair.first += j[k] * copy.loops[k].src_stride;
            pair.second += j[k] * copy.loops[k].dst_stride;
        }
        relation.insert(pair);
    });
    return relation;
}

inline Relation relation_of(const std::vector<Copy>& copies) {
    Relation relation;
    for (const Copy& copy : copies) {
        relation.merge(relation_of(copy));
    }
    return relation;
}

class Random {
  public:
    explicit Random(unsigned seed) : engine_(seed) {}

    /// lo <= result <= hi.
    Index between(Index lo, Index hi) {
        return std::uniform_int_distribution<Index>(lo, hi)(engine_);
    }
    bool chance(int percent) { return between(1, 100) <= percent; }

    Indices shape(std::size_t max_rank, Index max_extent) {
        Indices shape(static_cast<std::size_t>(between(1, static_cast<Index>(max_rank))));
        for (Index& extent : shape) {
            extent = between(1, max_extent);
        }
        return shape;
    }

    Box box_in(const Indices& shape) {
        Box box;
        for (const Index extent : shape) {
            const Index lo = between(0, extent - 1);
            box.push_back({lo, between(1, extent - lo)});
        }
        return box;
    }

    std::vector<std::size_t> order(std::size_t n) {
        std::vector<std::size_t> order(n);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), engine_);
        return order;
    }

    /// A patch in `shape` whose storage has its axes in any order, with gaps between them.
    Patch patch_in(const Indices& shape) {
        Patch p;
        p.offset = between(0, 8);
        for (const Range& range : box_in(shape)) {
            p.axes.push_back({range.lo, range.extent, 0});
        }
        Index stride = chance(70) ? 1 : between(1, 3);
        for (const std::size_t k : order(shape.size())) {
            p.axes[k].stride = stride;
            stride = stride * p.axes[k].extent + (chance(30) ? between(1, 5) : 0);
        }
        return p;
    }

    /// A copy of up to max_rank loops, gaps on both sides; the source may repeat itself.
    Copy copy(std::size_t max_rank, Index max_extent, bool repeats_src) {
        const Indices extents = shape(max_rank, max_extent);
        Copy copy{between(0, 5), between(0, 5), {}};
        for (const Index extent : extents) {
            copy.loops.push_back({extent, 0, 0});
        }
        const auto spread = [&](Index Loop::*stride) {
            Index next = chance(70) ? 1 : between(1, 3);
            for (const std::size_t k : order(extents.size())) {
                copy.loops[k].*stride = next;
                next = next * extents[k] + (chance(40) ? between(1, 4) : 0);
            }
        };
        spread(&Loop::src_stride);
        spread(&Loop::dst_stride);
        if (repeats_src) {
            copy.loops[static_cast<std::size_t>(between(0, static_cast<Index>(extents.size()) - 1))]
                .src_stride = 0;
        }
        return copy;
    }

  private:
    std::mt19937 engine_;
};

}  // namespace shardweld::layout::test
