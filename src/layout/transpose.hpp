// Transposes small squares of elements in vector registers.
// Knows nothing of loops: a square is one vector per row on either side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

namespace shardweld::layout {

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

}  // namespace shardweld::layout
