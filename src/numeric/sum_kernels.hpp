// The loops behind sums, one set per instruction set; all give the same bits.
#pragma once

#include <cstddef>

namespace shardweld::numeric {

struct SumKernels {
    /// sum = weight * x
    void (*begin)(const float* x, float weight, float* sum, std::size_t n);
    /// sum = sum + weight * x
    void (*add)(const float* x, float weight, float* sum, std::size_t n);
    /// sum = sum + weight * (x - base)
    void (*add_difference)(const float* x, const float* base, float weight, float* sum,
                           std::size_t n);
};

/// For any processor; the definition of what the other has to give.
const SumKernels& portable_sums();

/// AVX2; nullptr where the processor (or the build) has none.
const SumKernels* avx2_sums();

}  // namespace shardweld::numeric
