// A copy in bytes, ready to run: two inner loops for a kernel, the others as an odometer.
#pragma once

#include <array>
#include <cstddef>

#include "copy.hpp"

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

/// Throws Error(internal) when an address lies outside the spans or the element size is none.
Nest make_nest(const Copy& copy, std::size_t element_bytes, std::size_t src_bytes,
               std::size_t dst_bytes);

/// Where the loops in `rest` are: a counter each, and the byte offsets they add up to.
class Odometer {
  public:
    explicit Odometer(const Nest& nest) : nest_(nest), src_(nest.src), dst_(nest.dst) {}

    [[nodiscard]] std::ptrdiff_t src() const { return src_; }
    [[nodiscard]] std::ptrdiff_t dst() const { return dst_; }

    /// Next iteration; false when there is none.
    bool advance() {
        for (std::size_t k = nest_.rest.size(); k > 0; --k) {
            const ByteLoop& loop = nest_.rest[k - 1];
            src_ += loop.src;
            dst_ += loop.dst;
            if (++count_[k - 1] < loop.extent) {
                return true;
            }
            count_[k - 1] = 0;
            src_ -= loop.src * loop.extent;
            dst_ -= loop.dst * loop.extent;
        }
        return false;
    }

  private:
    const Nest& nest_;
    std::array<std::ptrdiff_t, kMaxAxes> count_{};
    std::ptrdiff_t src_;
    std::ptrdiff_t dst_;
};

/// Calls plane(src offset, dst offset) for every iteration of the loops in `rest`.
template <typename Plane>
void for_each_plane(const Nest& nest, const Plane& plane) {
    Odometer odometer(nest);
    do {
        plane(odometer.src(), odometer.dst());
    } while (odometer.advance());
}

}  // namespace shardweld::layout
