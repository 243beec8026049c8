// Moving the elements of a copy: rows, blocked transposes, and the plain nest for the rest.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "copy.hpp"
#include "nest.hpp"

namespace shardweld::layout {

namespace {

/// Elements of a side of the square: 16 bytes of them.
template <typename T>
inline constexpr std::size_t kSquare = 16 / sizeof(T);

template <typename T>
struct SquareRow {
    // The compilers' portable vectors: plain registers on every architecture.
    using Vector [[gnu::vector_size(16)]] = T;
};

/// First (or second) halves of a and b, element by element in turn.
template <typename V, std::size_t Half, std::size_t... I>
V interleave(const V& a, const V& b, std::index_sequence<I...> /*lanes*/) {
    const std::size_t n = sizeof...(I);
    return __builtin_shufflevector(a, b, (Half * (n / 2) + I / 2 + (I % 2) * n)...);
}

/// dst[i][j] = src[j][i] for i, j < kSquare<T>; rows `src_stride` and `dst_stride` bytes apart.
template <typename T>
inline void transpose_square(const std::byte* src, std::ptrdiff_t src_stride, std::byte* dst,
                             std::ptrdiff_t dst_stride) {
    using V = typename SquareRow<T>::Vector;
    const std::size_t n = kSquare<T>;
    const auto lanes = std::make_index_sequence<n>{};
    // Unrolled, so that the rows live in registers; -O2 alone would keep them in memory.
    std::array<V, n> rows;
#pragma GCC unroll 16
    for (std::size_t j = 0; j < n; ++j) {
        std::memcpy(&rows[j], src + static_cast<std::ptrdiff_t>(j) * src_stride, 16);
    }
    // Interleaving row k with row k + n/2 rotates the bits of (row, lane) by one; log2(n) rotations
    // exchange row and lane.
#pragma GCC unroll 16
    for (std::size_t step = 1; step < n; step *= 2) {
        std::array<V, n> next;
#pragma GCC unroll 16
        for (std::size_t k = 0; k < n / 2; ++k) {
            next[2 * k] = interleave<V, 0>(rows[k], rows[k + n / 2], lanes);
            next[2 * k + 1] = interleave<V, 1>(rows[k], rows[k + n / 2], lanes);
        }
        rows = next;
    }
#pragma GCC unroll 16
    for (std::size_t i = 0; i < n; ++i) {
        std::memcpy(dst + static_cast<std::ptrdiff_t>(i) * dst_stride, &rows[i], 16);
    }
}

/// Longest row copied in line; calling memcpy costs more than it gains below.
constexpr std::ptrdiff_t kLongestShortRow = 512;

/// Bytes of a cache line: tiles of a transpose are that wide on both sides.
constexpr std::ptrdiff_t kLine = 64;

template <std::size_t N>
void move_bytes(std::byte* dst, const std::byte* src) {
    std::memcpy(dst, src, N);  // a constant size: no call, and no alignment required
}

/// Copies N to 2N bytes as two overlapping blocks.
template <std::size_t N>
void move_two(std::byte* dst, const std::byte* src, std::ptrdiff_t bytes) {
    move_bytes<N>(dst, src);
    const std::ptrdiff_t tail = bytes - static_cast<std::ptrdiff_t>(N);
    move_bytes<N>(dst + tail, src + tail);
}

/// Calls row(dst, src) for every row of a plane.
template <typename Row>
void for_each_row(const ByteLoop& rows, std::byte* dst, const std::byte* src, const Row& row) {
    for (std::ptrdiff_t i = 0; i < rows.extent; ++i) {
        row(dst + i * rows.dst, src + i * rows.src);
    }
}

/// Rows of 32 bytes and more, in blocks of 32 with an overlapping last one.
void copy_short_row(std::byte* dst, const std::byte* src, std::ptrdiff_t bytes) {
    std::ptrdiff_t at = 0;
    for (; at + 32 <= bytes; at += 32) {
        move_bytes<32>(dst + at, src + at);
    }
    move_bytes<32>(dst + bytes - 32, src + bytes - 32);
}

/// A plane of contiguous rows of `bytes` bytes.
void copy_rows(const ByteLoop& rows, std::ptrdiff_t bytes, std::byte* dst, const std::byte* src) {
    const auto each = [&](const auto& row) { for_each_row(rows, dst, src, row); };
    if (bytes > kLongestShortRow || rows.extent == 1) {
        const auto size = static_cast<std::size_t>(bytes);
        each([size](std::byte* d, const std::byte* s) { std::memcpy(d, s, size); });
    } else if (bytes == 64) {
        each([](std::byte* d, const std::byte* s) { move_bytes<64>(d, s); });
    } else if (bytes >= 32) {
        each([bytes](std::byte* d, const std::byte* s) { copy_short_row(d, s, bytes); });
    } else if (bytes >= 16) {
        each([bytes](std::byte* d, const std::byte* s) { move_two<16>(d, s, bytes); });
    } else if (bytes >= 8) {
        each([bytes](std::byte* d, const std::byte* s) { move_two<8>(d, s, bytes); });
    } else if (bytes >= 4) {
        each([bytes](std::byte* d, const std::byte* s) { move_two<4>(d, s, bytes); });
    } else {
        each([bytes](std::byte* d, const std::byte* s) { std::copy(s, s + bytes, d); });
    }
}

/// A plane element by element, the inner loop's elements next to each other in time.
template <typename T>
void copy_plain(const ByteLoop& outer, const ByteLoop& inner, std::byte* dst,
                const std::byte* src) {
    for (std::ptrdiff_t i = 0; i < outer.extent; ++i) {
        std::byte* d = dst + i * outer.dst;
        const std::byte* s = src + i * outer.src;
        for (std::ptrdiff_t j = 0; j < inner.extent; ++j) {
            move_bytes<sizeof(T)>(d + j * inner.dst, s + j * inner.src);
        }
    }
}

/// One whole tile of a transpose, by way of a buffer: rows of dst are written a line at a time, so
/// that strides which fall onto the same cache sets do no harm. Requires a dense outer source.
template <typename T>
void copy_whole_tile(const ByteLoop& outer, const ByteLoop& inner, std::byte* dst,
                     const std::byte* src) {
    const auto size = static_cast<std::ptrdiff_t>(sizeof(T));
    const auto square = static_cast<std::ptrdiff_t>(kSquare<T>);
    const std::ptrdiff_t tile = kLine / size;
    alignas(kLine) std::array<std::byte, static_cast<std::size_t>(tile * kLine)> buffer;
    for (std::ptrdiff_t j = 0; j < tile; j += square) {
        for (std::ptrdiff_t i = 0; i < tile; i += square) {
            transpose_square<T>(src + i * size + j * inner.src, inner.src,
                                buffer.data() + i * kLine + j * size, kLine);
        }
    }
    const bool dense = inner.dst == size;
    for (std::ptrdiff_t i = 0; i < tile; ++i) {
        if (dense) {
            move_bytes<kLine>(dst + i * outer.dst, buffer.data() + i * kLine);
            continue;
        }
        copy_plain<T>({1, 0, 0}, {tile, size, inner.dst}, dst + i * outer.dst,
                      buffer.data() + i * kLine);
    }
}

/// A tile at the edge: whole squares in registers, the rest element by element.
template <typename T>
void copy_edge_tile(const ByteLoop& outer, const ByteLoop& inner, std::byte* dst,
                    const std::byte* src) {
    const auto size = static_cast<std::ptrdiff_t>(sizeof(T));
    const auto square = static_cast<std::ptrdiff_t>(kSquare<T>);
    std::ptrdiff_t whole_outer = 0;
    std::ptrdiff_t whole_inner = 0;
    if (outer.src == size && inner.dst == size) {
        whole_outer = outer.extent / square * square;
        whole_inner = inner.extent / square * square;
    }
    for (std::ptrdiff_t i = 0; i < whole_outer; i += square) {
        for (std::ptrdiff_t j = 0; j < whole_inner; j += square) {
            transpose_square<T>(src + i * outer.src + j * inner.src, inner.src,
                                dst + i * outer.dst + j * inner.dst, outer.dst);
        }
    }
    const ByteLoop right{inner.extent - whole_inner, inner.src, inner.dst};
    copy_plain<T>({whole_outer, outer.src, outer.dst}, right, dst + whole_inner * inner.dst,
                  src + whole_inner * inner.src);
    const ByteLoop below{outer.extent - whole_outer, outer.src, outer.dst};
    copy_plain<T>(below, inner, dst + whole_outer * outer.dst, src + whole_outer * outer.src);
}

/// A plane whose sides are dense in different loops, in tiles of cache lines.
template <typename T>
void copy_transposed(const ByteLoop& outer, const ByteLoop& inner, std::byte* dst,
                     const std::byte* src) {
    const auto size = static_cast<std::ptrdiff_t>(sizeof(T));
    const std::ptrdiff_t tile = kLine / size;
    for (std::ptrdiff_t i = 0; i < outer.extent; i += tile) {
        const ByteLoop rows{std::min(tile, outer.extent - i), outer.src, outer.dst};
        for (std::ptrdiff_t j = 0; j < inner.extent; j += tile) {
            const ByteLoop columns{std::min(tile, inner.extent - j), inner.src, inner.dst};
            const bool whole = rows.extent == tile && columns.extent == tile && outer.src == size;
            const auto copy = whole ? copy_whole_tile<T> : copy_edge_tile<T>;
            copy(rows, columns, dst + i * outer.dst + j * inner.dst,
                 src + i * outer.src + j * inner.src);
        }
    }
}

template <typename T>
void run_nest(const Nest& nest, const std::byte* src, std::byte* dst) {
    const ByteLoop& inner = nest.inner;
    const ByteLoop& outer = nest.outer;
    switch (nest.shape) {
        case Shape::rows:
            for_each_plane(nest, [&](std::ptrdiff_t s, std::ptrdiff_t d) {
                copy_rows(outer, inner.extent * inner.dst, dst + d, src + s);
            });
            break;
        case Shape::transpose:
            for_each_plane(nest, [&](std::ptrdiff_t s, std::ptrdiff_t d) {
                copy_transposed<T>(outer, inner, dst + d, src + s);
            });
            break;
        case Shape::plain:
            for_each_plane(nest, [&](std::ptrdiff_t s, std::ptrdiff_t d) {
                copy_plain<T>(outer, inner, dst + d, src + s);
            });
            break;
    }
}

}  // namespace

void run(const Copy& copy, std::size_t element_bytes, ByteView src, ByteSpan dst) {
    const Nest nest = make_nest(copy, element_bytes, src.size(), dst.size());
    if (nest.empty) {
        return;
    }
    switch (element_bytes) {
        case 1:
            return run_nest<std::uint8_t>(nest, src.data(), dst.data());
        case 2:
            return run_nest<std::uint16_t>(nest, src.data(), dst.data());
        case 4:
            return run_nest<std::uint32_t>(nest, src.data(), dst.data());
        default:
            return run_nest<std::uint64_t>(nest, src.data(), dst.data());
    }
}

}  // namespace shardweld::layout
