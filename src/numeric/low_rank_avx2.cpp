#include "low_rank.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define SHARDWELD_FMA __attribute__((target("avx2,fma")))

namespace shardweld::numeric {

namespace {

constexpr std::size_t kLanes = 8;

/// Rows x (Vectors * kLanes) values at (row, col): the sums stay in registers over all of k.
template <std::size_t Rows, std::size_t Vectors>
SHARDWELD_FMA void tile(const LowRankUpdate& update, std::size_t row, std::size_t col) {
    __m256 sums[Rows][Vectors];
    for (auto& of_row : sums) {
        for (__m256& sum : of_row) {
            sum = _mm256_setzero_ps();
        }
    }
    const float* const left = update.left + row * update.rank;
    const float* right = update.right + col;
    for (std::size_t k = 0; k < update.rank; ++k, right += update.right_stride) {
        __m256 across[Vectors];
        for (std::size_t v = 0; v < Vectors; ++v) {
            across[v] = _mm256_loadu_ps(right + v * kLanes);
        }
        for (std::size_t i = 0; i < Rows; ++i) {
            const __m256 down = _mm256_set1_ps(left[i * update.rank + k]);
            for (std::size_t v = 0; v < Vectors; ++v) {
                sums[i][v] = _mm256_fmadd_ps(down, across[v], sums[i][v]);
            }
        }
    }
    const __m256 scale = _mm256_set1_ps(update.scale);
    for (std::size_t i = 0; i < Rows; ++i) {
        float* const at = update.values + (row + i) * update.n_cols + col;
        for (std::size_t v = 0; v < Vectors; ++v) {
            const __m256 delta = _mm256_mul_ps(scale, sums[i][v]);
            float* const place = at + v * kLanes;
            _mm256_storeu_ps(place, _mm256_add_ps(_mm256_loadu_ps(place), delta));
        }
    }
}

SHARDWELD_FMA void single(const LowRankUpdate& update, std::size_t row, std::size_t col) {
    const float* const left = update.left + row * update.rank;
    float sum = 0;
    for (std::size_t k = 0; k < update.rank; ++k) {
        sum = __builtin_fmaf(left[k], update.right[k * update.right_stride + col], sum);
    }
    const float delta = update.scale * sum;
    update.values[row * update.n_cols + col] += delta;
}

SHARDWELD_FMA void columns(const LowRankUpdate& update, std::size_t col, std::size_t n_cols) {
    constexpr std::size_t kRows = 4;
    std::size_t row = 0;
    for (; row + kRows <= update.n_rows; row += kRows) {
        n_cols == kLanes ? tile<kRows, 1>(update, row, col) : tile<kRows, 2>(update, row, col);
    }
    for (; row < update.n_rows; ++row) {
        n_cols == kLanes ? tile<1, 1>(update, row, col) : tile<1, 2>(update, row, col);
    }
}

SHARDWELD_FMA void add_low_rank_fast(const LowRankUpdate& update) {
    std::size_t col = 0;
    for (; col + 2 * kLanes <= update.n_cols; col += 2 * kLanes) {
        columns(update, col, 2 * kLanes);
    }
    for (; col + kLanes <= update.n_cols; col += kLanes) {
        columns(update, col, kLanes);
    }
    for (std::size_t row = 0; row < update.n_rows; ++row) {
        for (std::size_t rest = col; rest < update.n_cols; ++rest) {
            single(update, row, rest);
        }
    }
}

}  // namespace

LowRankKernel add_low_rank_avx2() {
    static const bool available =
        __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    return available ? add_low_rank_fast : nullptr;
}

}  // namespace shardweld::numeric

#else

namespace shardweld::numeric {

LowRankKernel add_low_rank_avx2() {
    return nullptr;
}

}  // namespace shardweld::numeric

#endif
