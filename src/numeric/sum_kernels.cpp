// The loops are written once, without branches, and compiled for each instruction set.
#include "sum_kernels.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "instruction_sets.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

/// bf16's bits are the first of fp32's.
using F32Bits = std::uint32_t;
using Bf16Bits = std::uint16_t;

template <typename Bits>
SHARDWELD_LOOP float value_at(const std::byte* x, std::size_t i) {
    Bits bits;
    std::memcpy(&bits, x + i * sizeof(bits), sizeof(bits));
    return std::bit_cast<float>(std::uint32_t{bits} << (32U - 8U * sizeof(bits)));
}

template <typename Bits>
SHARDWELD_LOOP void begin_loop(const std::byte* __restrict x, float weight, float* __restrict sum,
                               std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        sum[i] = weight * value_at<Bits>(x, i);
    }
}

template <typename Bits>
SHARDWELD_LOOP void add_loop(const std::byte* __restrict x, float weight, float* __restrict sum,
                             std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = weight * value_at<Bits>(x, i);
        sum[i] += product;
    }
}

template <typename Bits>
SHARDWELD_LOOP void subtract_loop(const std::byte* __restrict x, const float* __restrict base,
                                  float weight, float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Bits>(x, i) - base[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

template <typename Bits>
SHARDWELD_LOOP void approach_loop(const std::byte* __restrict x, float weight,
                                  float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Bits>(x, i) - sum[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

template <typename Bits>
SHARDWELD_LOOP void add_difference_loop(const std::byte* x, const float* base, float weight,
                                        float* sum, std::size_t n) {
    base == sum ? approach_loop<Bits>(x, weight, sum, n)
                : subtract_loop<Bits>(x, base, weight, sum, n);
}

SHARDWELD_LOOP void settle_loop(const float* __restrict sum, float* __restrict out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(sum[i]);
        const bool is_nan = (bits & kF32Magnitude) > kF32Infinity;
        out[i] = std::bit_cast<float>(is_nan ? kF32Infinity | kF32Quiet : bits);
    }
}

template <template <auto> class Set, typename Bits>
constexpr SumKernels::TypeSums kStored{Set<begin_loop<Bits>>::run, Set<add_loop<Bits>>::run,
                                       Set<add_difference_loop<Bits>>::run};

template <template <auto> class Set>
constexpr SumKernels kSums{kStored<Set, F32Bits>, kStored<Set, Bf16Bits>, Set<settle_loop>::run};

}  // namespace

const SumKernels& best_sums() {
    const InstructionSet set = instruction_set();
    return set == InstructionSet::avx512 ? kSums<Avx512>
           : set == InstructionSet::avx2 ? kSums<Avx2>
                                         : kSums<Portable>;
}

}  // namespace shardweld::numeric
