// The loops are written once and compiled for each instruction set.
#include "low_rank.hpp"

#include <algorithm>
#include <cmath>

#include "instruction_sets.hpp"

namespace shardweld::numeric {

namespace {

// What stays in the innermost cache while rows pass: a strip of the right factor and a row's sums.
// The strip is packed, for rows that lie a power of two apart drive each other out of a cache.
constexpr std::size_t kPacked = 4096;
constexpr std::size_t kSums = 256;
constexpr std::size_t kLeastWidth = 16;

/// Some terms of a row's sums.
template <std::size_t kTerms>
SHARDWELD_LOOP void add_products(const float* __restrict left, const float* __restrict right,
                                 std::size_t stride, float* __restrict sums, std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
        float sum = sums[j];
        for (std::size_t k = 0; k < kTerms; ++k) {
            sum = std::fma(left[k], right[k * stride + j], sum);
        }
        sums[j] = sum;
    }
}

SHARDWELD_LOOP void add_sums(const float* __restrict sums, float scale, float* __restrict values,
                             std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) {
        const float delta = scale * sums[j];
        values[j] += delta;
    }
}

SHARDWELD_LOOP void low_rank_loop(const LowRankUpdate& update) {
    constexpr std::size_t kTerms = 8;
    const std::size_t rank = std::max<std::size_t>(update.rank, 1);
    const std::size_t most = kPacked / rank / kLeastWidth * kLeastWidth;
    const std::size_t width = most == 0 ? kSums : std::min(kSums, most);
    float packed[kPacked];  // not initialised
    float sums[kSums];
    for (std::size_t col = 0; col < update.n_cols; col += width) {
        const std::size_t n = std::min(width, update.n_cols - col);
        const float* right = update.right + col;
        std::size_t stride = update.right_stride;
        if (most != 0) {
            for (std::size_t k = 0; k < update.rank; ++k) {
                std::copy_n(right + k * stride, n, packed + k * width);
            }
            right = packed;
            stride = width;
        }
        for (std::size_t row = 0; row < update.n_rows; ++row) {
            const float* left = update.left + row * update.rank;
            std::fill_n(sums, n, 0.0F);
            std::size_t k = 0;
            for (; k + kTerms <= update.rank; k += kTerms) {
                add_products<kTerms>(left + k, right + k * stride, stride, sums, n);
            }
            for (; k < update.rank; ++k) {
                add_products<1>(left + k, right + k * stride, stride, sums, n);
            }
            add_sums(sums, update.scale, update.values + row * update.n_cols + col, n);
        }
    }
}

}  // namespace

void add_low_rank(const LowRankUpdate& update) {
    loop_of<low_rank_loop>()(update);
}

}  // namespace shardweld::numeric
