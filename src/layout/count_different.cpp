// Counting the elements in which the two sides of a copy differ.
#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/index.hpp"

#include "copy.hpp"
#include "nest.hpp"

namespace shardweld::layout {

namespace {

/// Bytes of a row compared at once before its elements are looked at.
constexpr std::ptrdiff_t kBlock = 4096;

template <std::ptrdiff_t Size>
Index count_elements(const ByteLoop& loop, const std::byte* src, const std::byte* dst) {
    Index different = 0;
    for (std::ptrdiff_t j = 0; j < loop.extent; ++j) {
        different += std::memcmp(src + j * loop.src, dst + j * loop.dst, Size) != 0 ? 1 : 0;
    }
    return different;
}

/// A row contiguous on both sides.
template <std::ptrdiff_t Size>
Index count_row(std::ptrdiff_t extent, const std::byte* src, const std::byte* dst) {
    Index different = 0;
    for (std::ptrdiff_t at = 0; at < extent * Size; at += kBlock) {
        const std::ptrdiff_t bytes = std::min(kBlock, extent * Size - at);
        if (std::memcmp(src + at, dst + at, static_cast<std::size_t>(bytes)) != 0) {
            different += count_elements<Size>({bytes / Size, Size, Size}, src + at, dst + at);
        }
    }
    return different;
}

template <std::ptrdiff_t Size>
Index count_nest(const Nest& nest, const std::byte* src, const std::byte* dst) {
    Index different = 0;
    for_each_plane(nest, [&](std::ptrdiff_t s, std::ptrdiff_t d) {
        for (std::ptrdiff_t i = 0; i < nest.outer.extent; ++i) {
            const std::byte* src_row = src + s + i * nest.outer.src;
            const std::byte* dst_row = dst + d + i * nest.outer.dst;
            different += nest.shape == Shape::rows
                             ? count_row<Size>(nest.inner.extent, src_row, dst_row)
                             : count_elements<Size>(nest.inner, src_row, dst_row);
        }
    });
    return different;
}

}  // namespace

Index count_different(const Copy& copy, std::size_t element_bytes, ByteView src, ByteView dst) {
    const Nest nest = make_nest(copy, element_bytes, src.size(), dst.size());
    if (nest.empty) {
        return 0;
    }
    switch (element_bytes) {
        case 1:
            return count_nest<1>(nest, src.data(), dst.data());
        case 2:
            return count_nest<2>(nest, src.data(), dst.data());
        case 4:
            return count_nest<4>(nest, src.data(), dst.data());
        default:
            return count_nest<8>(nest, src.data(), dst.data());
    }
}

}  // namespace shardweld::layout
