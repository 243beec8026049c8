#include "sum_kernels.hpp"

#if defined(__x86_64__)

#include <immintrin.h>

#define SHARDWELD_SUM __attribute__((target("avx2")))

namespace shardweld::numeric {

namespace {

constexpr std::size_t kLanesOfSum = 8;

SHARDWELD_SUM void begin_fast(const float* x, float weight, float* sum, std::size_t n) {
    const __m256 factor = _mm256_set1_ps(weight);
    std::size_t i = 0;
    for (; i + kLanesOfSum <= n; i += kLanesOfSum) {
        _mm256_storeu_ps(sum + i, _mm256_mul_ps(factor, _mm256_loadu_ps(x + i)));
    }
    portable_sums().begin(x + i, weight, sum + i, n - i);
}

SHARDWELD_SUM void add_fast(const float* x, float weight, float* sum, std::size_t n) {
    const __m256 factor = _mm256_set1_ps(weight);
    std::size_t i = 0;
    for (; i + kLanesOfSum <= n; i += kLanesOfSum) {
        const __m256 product = _mm256_mul_ps(factor, _mm256_loadu_ps(x + i));
        _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), product));
    }
    portable_sums().add(x + i, weight, sum + i, n - i);
}

SHARDWELD_SUM void add_difference_fast(const float* x, const float* base, float weight, float* sum,
                                       std::size_t n) {
    const __m256 factor = _mm256_set1_ps(weight);
    std::size_t i = 0;
    for (; i + kLanesOfSum <= n; i += kLanesOfSum) {
        const __m256 difference = _mm256_sub_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(base + i));
        const __m256 product = _mm256_mul_ps(factor, difference);
        _mm256_storeu_ps(sum + i, _mm256_add_ps(_mm256_loadu_ps(sum + i), product));
    }
    portable_sums().add_difference(x + i, base + i, weight, sum + i, n - i);
}

}  // namespace

const SumKernels* avx2_sums() {
    static constexpr SumKernels kFast{begin_fast, add_fast, add_difference_fast};
    static const bool available = __builtin_cpu_supports("avx2") != 0;
    return available ? &kFast : nullptr;
}

}  // namespace shardweld::numeric

#else

namespace shardweld::numeric {

const SumKernels* avx2_sums() {
    return nullptr;
}

}  // namespace shardweld::numeric

#endif
