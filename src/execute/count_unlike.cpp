#include "count_unlike.hpp"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "core/lists.hpp"
#include "numeric/convert.hpp"

namespace shardweld::execute {

namespace {

/// Elements that are rounded at once.
constexpr Index kAtOnce = 1 << 16;

/// One side of the nest, dense and of that type.
ByteBuffer dense_side(const layout::Copy& pack, DType from, DType to, ByteView side) {
    const auto n = static_cast<std::size_t>(pack.volume());
    ByteBuffer stored(n * size_of(from));
    ByteBuffer rounded(n * size_of(to));
    layout::run(pack, size_of(from), side, stored);
    numeric::convert(from, stored, to, rounded);
    return rounded;
}

/// Elements that are a NaN on both sides, of other bits: 0xFFFF or 0x7FC0 in bf16.
Index count_other_nans(DType type, ByteView a, ByteView b) {
    const std::size_t element = size_of(type);
    const auto widened = [&](ByteView side) {
        std::vector<float> values(side.size() / element);
        numeric::convert(type, side, DType::f32, std::as_writable_bytes(std::span(values)));
        return values;
    };
    const std::vector<float> values_a = widened(a);
    const std::vector<float> values_b = widened(b);
    Index count = 0;
    for (const std::size_t i : indices(values_a)) {
        const bool are_nans = std::isnan(values_a[i]) && std::isnan(values_b[i]);
        count += are_nans && !std::ranges::equal(a.subspan(i * element, element),
                                                 b.subspan(i * element, element))
                     ? 1
                     : 0;
    }
    return count;
}

/// `src` is f32 or of the type of `dst`.
Index count_unrounded(const layout::Copy& copy, ComparedTypes types, ByteView src, ByteView dst) {
    Index different = 0;
    const layout::Range span = layout::src_span(copy);
    for (Index at = span.lo; at < span.end(); at += kAtOnce) {
        for (const layout::Copy& part : layout::restrict_src(copy, at, at + kAtOnce)) {
            const auto [pack, unpack] = layout::pack_unpack(part);
            const auto rounded = dense_side(pack, types.src, types.dst, src);
            const Index found = layout::count_different(unpack, size_of(types.dst), rounded, dst);
            if (found > 0) {
                ByteBuffer stored(rounded.size());
                layout::run(layout::turned(unpack), size_of(types.dst), dst, stored);
                different += found - count_other_nans(types.dst, rounded, stored);
            }
        }
    }
    return different;
}

}  // namespace

Index count_unlike(const layout::Copy& copy, const ComparedTypes& types, ByteView src,
                   ByteView dst) {
    if (types.src == types.dst) {
        const Index n = layout::count_different(copy, size_of(types.src), src, dst);
        return n > 0 && is_float(types.src) ? count_unrounded(copy, types, src, dst) : n;
    }
    return types.dst == DType::f32
               ? count_unrounded(layout::turned(copy), {types.dst, types.src}, dst, src)
               : count_unrounded(copy, types, src, dst);
}

}  // namespace shardweld::execute
