// The loops are written once, without branches, and compiled for each instruction set.
#include "sum_kernels.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "instruction_sets.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

struct StoredF32 {
    using Word = std::uint32_t;
    static SHARDWELD_LOOP std::uint32_t widened(Word word) { return word; }
};

struct StoredBf16 {
    using Word = std::uint16_t;
    static SHARDWELD_LOOP std::uint32_t widened(Word word) { return std::uint32_t{word} << 16U; }
};

template <typename Type>
SHARDWELD_LOOP float value_at(const std::byte* x, std::size_t i) {
    typename Type::Word word;
    std::memcpy(&word, x + i * sizeof(word), sizeof(word));
    return std::bit_cast<float>(Type::widened(word));
}

template <typename Type>
SHARDWELD_LOOP void begin_loop(const std::byte* __restrict x, float weight, float* __restrict sum,
                               std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        sum[i] = weight * value_at<Type>(x, i);
    }
}

template <typename Type>
SHARDWELD_LOOP void add_loop(const std::byte* __restrict x, float weight, float* __restrict sum,
                             std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = weight * value_at<Type>(x, i);
        sum[i] += product;
    }
}

template <typename Type>
SHARDWELD_LOOP void subtract_loop(const std::byte* __restrict x, const float* __restrict base,
                                  float weight, float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Type>(x, i) - base[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

template <typename Type>
SHARDWELD_LOOP void approach_loop(const std::byte* __restrict x, float weight,
                                  float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Type>(x, i) - sum[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

template <typename Type>
SHARDWELD_LOOP void add_difference_loop(const std::byte* x, const float* base, float weight,
                                        float* sum, std::size_t n) {
    base == sum ? approach_loop<Type>(x, weight, sum, n)
                : subtract_loop<Type>(x, base, weight, sum, n);
}

SHARDWELD_LOOP void settle_loop(const float* __restrict sum, float* __restrict out, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(sum[i]);
        const bool is_nan = (bits & kF32Magnitude) > kF32Infinity;
        out[i] = std::bit_cast<float>(is_nan ? kF32Infinity | kF32Quiet : bits);
    }
}

template <template <auto> class Set, typename Type>
constexpr SumKernels::TypeSums kStored{Set<begin_loop<Type>>::run, Set<add_loop<Type>>::run,
                                       Set<add_difference_loop<Type>>::run};

template <template <auto> class Set>
constexpr SumKernels kSums{kStored<Set, StoredF32>, kStored<Set, StoredBf16>,
                           Set<settle_loop>::run};

}  // namespace

const SumKernels& portable_sums() {
    return kSums<Portable>;
}

const SumKernels* avx2_sums() {
    return has_avx2() ? &kSums<Avx2> : nullptr;
}

const SumKernels* avx512_sums() {
    return has_avx512() ? &kSums<Avx512> : nullptr;
}

const SumKernels& best_sums() {
    static const SumKernels& best = has_avx512() ? kSums<Avx512>
                                    : has_avx2() ? kSums<Avx2>
                                                 : kSums<Portable>;
    return best;
}

}  // namespace shardweld::numeric
