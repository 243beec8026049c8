// Adds a product of two narrow matrices to a block of fp32 values, in one fixed order of
// operations.
#pragma once

#include <cstddef>

namespace shardweld::numeric {

/// A block of values and the factors of its update: fp32, row-major, without gaps but for
/// `right_stride`.
struct LowRankUpdate {
    float* values = nullptr;       ///< n_rows x n_cols
    const float* left = nullptr;   ///< n_rows x rank
    const float* right = nullptr;  ///< rank x n_cols
    std::size_t n_rows = 0;
    std::size_t n_cols = 0;
    std::size_t rank = 0;
    std::size_t right_stride = 0;  ///< elements between rows of `right`
    float scale = 1;
};

/// values[i][j] += scale * sum_k left[i][k] * right[k][j], where the sum is fma(left, right, sum)
/// with k ascending from 0, and product and sum are each rounded once. An element's bits depend on
/// its own row and column only.
void add_low_rank(const LowRankUpdate& update);

}  // namespace shardweld::numeric
