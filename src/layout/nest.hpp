// A copy in bytes, ready to run: two inner loops for a kernel, the others as an odometer.
// Knows nothing of what a kernel does with the two addresses.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "shardweld/layout/copy.hpp"

namespace shardweld::layout {

/// One loop; strides in bytes.
struct ByteLoop {
    std::ptrdiff_t extent = 1;
    std::ptrdiff_t src = 0;
    std::ptrdiff_t dst = 0;
};

/// How the innermost two loops of a nest run best.
enum class Shape {
    rows,       ///< contiguous on both sides in the inner loop
    transpose,  ///< the sides are densest in different loops: `inner` is dst's, `outer` is src's
    plain,
};

/// A checked copy: every address of the loops lies inside the spans it was made for.
struct Nest {
    Shape shape = Shape::plain;
    std::ptrdiff_t src = 0;  ///< byte offsets of the first element
    std::ptrdiff_t dst = 0;
    ByteLoop inner;
    ByteLoop outer;
    InlineVector<ByteLoop, kMaxAxes> rest;  ///< outermost first
    bool empty = false;
};

/// Throws Error(internal) when an address lies outside of the spans or the element size is none.
Nest make_nest(const Copy& copy, std::size_t element_bytes, std::size_t src_bytes,
               std::size_t dst_bytes);

/// Calls plane(src offset, dst offset) for every iteration of the loops in `rest`.
template <typename Plane>
void for_each_plane(const Nest& nest, const Plane& plane) {
    std::array<std::ptrdiff_t, kMaxAxes> count{};
    std::ptrdiff_t src = nest.src;
    std::ptrdiff_t dst = nest.dst;
    while (true) {
        plane(src, dst);
        std::size_t k = nest.rest.size();
        for (; k > 0; --k) {
            const ByteLoop& loop = nest.rest[k - 1];
            src += loop.src;
            dst += loop.dst;
            if (++count[k - 1] < loop.extent) {
                break;
            }
            count[k - 1] = 0;
            src -= loop.src * loop.extent;
            dst -= loop.dst * loop.extent;
        }
        if (k == 0) {
            return;
        }
    }
}

}  // namespace shardweld::layout
