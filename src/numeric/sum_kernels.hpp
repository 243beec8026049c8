// The loops behind sums, one set per instruction set; all give the same bits.
#pragma once

#include <cstddef>

namespace shardweld::numeric {

/// The summing loops of one instruction set.
struct SumKernels {
    /// Sums of elements of one stored type, which need no alignment.
    struct TypeSums {
        /// sum = weight * x
        void (*begin)(const std::byte* x, float weight, float* sum, std::size_t n);
        /// sum = sum + weight * x
        void (*add)(const std::byte* x, float weight, float* sum, std::size_t n);
        /// sum = sum + weight * (x - base); `base` may be `sum`
        void (*add_difference)(const std::byte* x, const float* base, float weight, float* sum,
                               std::size_t n);
    };
    TypeSums f32, bf16;
    /// out = sum, every NaN the positive quiet one without a payload
    void (*settle)(const float* sum, float* out, std::size_t n);
};

/// Of instruction_set().
const SumKernels& best_sums();

}  // namespace shardweld::numeric
