#include "copy.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/index.hpp"
#include "core/lists.hpp"
#include "shardweld/error.hpp"

#include "patch.hpp"

namespace shardweld::layout {

namespace {

/// Order of loops in normal form.
bool runs_outside(const Loop& a, const Loop& b) {
    return a.dst_stride != b.dst_stride ? a.dst_stride > b.dst_stride : a.src_stride > b.src_stride;
}

/// Inserts a loop into loops already in order, behind its equals; drops unit loops.
void insert_in_order(Loops& loops, const Loop& loop) {
    if (loop.extent == 1) {
        return;
    }
    loops.push_back(loop);
    std::size_t at = loops.size() - 1;
    for (; at > 0 && runs_outside(loop, loops[at - 1]); --at) {
        loops[at] = loops[at - 1];
    }
    loops[at] = loop;
}

void merge_neighbours(Loops& loops) {
    std::size_t kept = 0;
    for (std::size_t i = 1; i < loops.size(); ++i) {
        const Loop inner = loops[i];
        Loop& outer = loops[kept];
        if (outer.dst_stride == inner.extent * inner.dst_stride &&
            outer.src_stride == inner.extent * inner.src_stride) {
            outer = {outer.extent * inner.extent, inner.src_stride, inner.dst_stride};
        } else {
            loops[++kept] = inner;
        }
    }
    if (!loops.empty()) {
        loops.resize(kept + 1);
    }
}

/// Addresses offset + sum(j * stride) of the loops, on one side of a copy.
Range span_of(Index offset, const Copy& copy, Index Loop::*stride) {
    // Asked of millions of copies: an overflow is noted, and thrown behind them.
    bool is_large = false;
    const auto add = [&](Index a, Index b) {
        Index sum = 0;
        is_large = __builtin_add_overflow(a, b, &sum) || is_large;
        return sum;
    };
    Index lo = offset;
    Index last = offset;
    bool is_empty = false;
    for (const Loop& loop : copy.loops) {
        is_empty = is_empty || loop.extent < 1;
        Index reach = 0;
        is_large = __builtin_mul_overflow(loop.extent - 1, loop.*stride, &reach) || is_large;
        Index& end = reach < 0 ? lo : last;
        end = add(end, reach);
    }
    const Index extent = is_empty ? 0 : add(add(last, -lo), 1);
    if (is_large) {
        throw Error(ErrorCode::corrupt,
                    "the address span of a copy is larger than 64-bit arithmetic holds");
    }
    return {lo, extent};
}

}  // namespace

Index Copy::volume() const {
    Index volume = 1;
    for (const Loop& loop : loops) {
        volume *= loop.extent;
    }
    return volume;
}

std::optional<Copy> overlap(const Patch& src, const Patch& dst) {
    if (src.axes.size() != dst.axes.size()) {
        throw Error(ErrorCode::internal, "overlap of patches with " +
                                             std::to_string(src.axes.size()) + " and " +
                                             std::to_string(dst.axes.size()) + " axes");
    }
    Copy copy{src.offset, dst.offset, {}};
    for (const std::size_t k : indices(src.axes)) {
        const Axis& s = src.axes[k];
        const Axis& d = dst.axes[k];
        const Range both = meet(s.range(), d.range());
        if (both.extent <= 0) {
            return std::nullopt;
        }
        copy.src_offset += (both.lo - s.lo) * s.stride;
        copy.dst_offset += (both.lo - d.lo) * d.stride;
        insert_in_order(copy.loops, {both.extent, s.stride, d.stride});
    }
    merge_neighbours(copy.loops);
    return copy;
}

Copy normal(const Copy& copy) {
    Copy out{copy.src_offset, copy.dst_offset, {}};
    for (const Loop& loop : copy.loops) {
        insert_in_order(out.loops, loop);
    }
    merge_neighbours(out.loops);
    return out;
}

std::pair<Copy, Copy> pack_unpack(const Copy& copy) {
    Copy pack = copy;
    Copy unpack = copy;
    pack.dst_offset = 0;
    unpack.src_offset = 0;
    Index stride = 1;
    for (std::size_t k = copy.loops.size(); k > 0; --k) {
        pack.loops[k - 1].dst_stride = stride;
        unpack.loops[k - 1].src_stride = stride;
        stride *= copy.loops[k - 1].extent;
    }
    return {pack, unpack};
}

Copy turned(Copy copy) {
    std::swap(copy.src_offset, copy.dst_offset);
    for (Loop& loop : copy.loops) {
        std::swap(loop.src_stride, loop.dst_stride);
    }
    return copy;
}

Range src_span(const Copy& copy) {
    return span_of(copy.src_offset, copy, &Loop::src_stride);
}

Range dst_span(const Copy& copy) {
    return span_of(copy.dst_offset, copy, &Loop::dst_stride);
}

std::string to_text(const Copy& copy) {
    std::string text = std::to_string(copy.src_offset) + " -> " + std::to_string(copy.dst_offset);
    for (const char* before = ": "; const Loop& loop : copy.loops) {
        text += before + std::to_string(loop.extent) + "x(" + std::to_string(loop.src_stride) +
                "," + std::to_string(loop.dst_stride) + ")";
        before = " ";
    }
    return text;
}

}  // namespace shardweld::layout
