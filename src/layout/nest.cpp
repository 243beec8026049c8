#include "nest.hpp"

#include <cstddef>
#include <string>

#include "core/index.hpp"
#include "shardweld/error.hpp"

#include "copy.hpp"

namespace shardweld::layout {

namespace {

void require_inside(Range span, std::size_t bytes, std::size_t element_bytes, const char* side,
                    const Copy& copy) {
    const auto elements = static_cast<Index>(bytes / element_bytes);
    if (span.lo < 0 || span.extent > elements || span.lo > elements - span.extent) {
        throw Error(ErrorCode::internal, "the copy " + to_text(copy) + " reaches " + side +
                                             " elements [" + std::to_string(span.lo) + ", " +
                                             std::to_string(span.end()) + ") of " +
                                             std::to_string(elements));
    }
}

/// The loop in which the source is densest; the last one when the source does not move at all.
std::size_t densest_in_src(const Loops& loops) {
    std::size_t best = loops.size() - 1;
    for (std::size_t k = loops.size(); k > 0; --k) {
        const Index stride = std::abs(loops[k - 1].src_stride);
        const Index least = std::abs(loops[best].src_stride);
        if (stride != 0 && (least == 0 || stride < least)) {
            best = k - 1;
        }
    }
    return best;
}

}  // namespace

Nest make_nest(const Copy& copy, std::size_t element_bytes, std::size_t src_bytes,
               std::size_t dst_bytes) {
    if (element_bytes != 1 && element_bytes != 2 && element_bytes != 4 && element_bytes != 8) {
        throw Error(ErrorCode::internal, "elements of " + std::to_string(element_bytes) +
                                             " bytes; a copy moves 1, 2, 4 or 8");
    }
    Nest nest;
    const Range src = src_span(copy);
    nest.empty = src.extent == 0;
    if (nest.empty) {
        return nest;
    }
    require_inside(src, src_bytes, element_bytes, "source", copy);
    require_inside(dst_span(copy), dst_bytes, element_bytes, "destination", copy);

    const Copy ordered = normal(copy);
    const auto size = static_cast<Index>(element_bytes);
    const auto in_bytes = [size](const Loop& loop) {
        return ByteLoop{loop.extent, loop.src_stride * size, loop.dst_stride * size};
    };
    nest.src = ordered.src_offset * size;
    nest.dst = ordered.dst_offset * size;
    const auto& loops = ordered.loops;
    if (loops.empty()) {
        nest.inner = {1, size, size};
        nest.shape = Shape::rows;
        return nest;
    }
    const std::size_t last = loops.size() - 1;
    std::size_t second = densest_in_src(loops);
    nest.shape = Shape::transpose;
    if (second == last) {
        const bool dense = loops[last].src_stride == 1 && loops[last].dst_stride == 1;
        nest.shape = dense ? Shape::rows : Shape::plain;
        second = last - 1;  // may wrap: then there is no second loop and none is taken out
    }
    nest.inner = in_bytes(loops[last]);
    for (std::size_t k = 0; k < last; ++k) {
        if (k == second) {
            nest.outer = in_bytes(loops[k]);
        } else {
            nest.rest.push_back(in_bytes(loops[k]));
        }
    }
    return nest;
}

}  // namespace shardweld::layout
