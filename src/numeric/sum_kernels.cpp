// The loops are written once, without branches, and compiled for each instruction set.
#include "sum_kernels.hpp"

#include <bit>
#include <cstdint>
#include <cstring>

#include "scalar.hpp"

#define SHARDWELD_SUM_INLINE inline __attribute__((always_inline))

namespace shardweld::numeric {

namespace {

struct StoredF32 {
    using Word = std::uint32_t;
    static SHARDWELD_SUM_INLINE std::uint32_t widened(Word word) { return word; }
};

struct StoredBf16 {
    using Word = std::uint16_t;
    static SHARDWELD_SUM_INLINE std::uint32_t widened(Word word) {
        return std::uint32_t{word} << 16U;
    }
};

template <typename Type>
SHARDWELD_SUM_INLINE float value_at(const std::byte* x, std::size_t i) {
    typename Type::Word word;
    std::memcpy(&word, x + i * sizeof(word), sizeof(word));
    return std::bit_cast<float>(Type::widened(word));
}

template <typename Type>
SHARDWELD_SUM_INLINE void begin_loop(const std::byte* __restrict x, float weight,
                                     float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        sum[i] = weight * value_at<Type>(x, i);
    }
}

template <typename Type>
SHARDWELD_SUM_INLINE void add_loop(const std::byte* __restrict x, float weight,
                                   float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = weight * value_at<Type>(x, i);
        sum[i] += product;
    }
}

template <typename Type>
SHARDWELD_SUM_INLINE void add_difference_loop(const std::byte* __restrict x,
                                              const float* __restrict base, float weight,
                                              float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Type>(x, i) - base[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

template <typename Type>
SHARDWELD_SUM_INLINE void approach_loop(const std::byte* __restrict x, float weight,
                                        float* __restrict sum, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float difference = value_at<Type>(x, i) - sum[i];
        const float product = weight * difference;
        sum[i] += product;
    }
}

SHARDWELD_SUM_INLINE void settle_loop(const float* __restrict sum, float* __restrict out,
                                      std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(sum[i]);
        const bool is_nan = (bits & kF32Magnitude) > kF32Infinity;
        out[i] = std::bit_cast<float>(is_nan ? kF32Infinity | kF32Quiet : bits);
    }
}

}  // namespace

// One set of the loops: NAME is where they are, ATTRIBUTE what they are compiled for.
#define SHARDWELD_SUMS(NAME, ATTRIBUTE)                                                          \
    namespace NAME {                                                                             \
    template <typename Type>                                                                     \
    ATTRIBUTE void begin(const std::byte* x, float w, float* s, std::size_t n) {                 \
        begin_loop<Type>(x, w, s, n);                                                            \
    }                                                                                            \
    template <typename Type>                                                                     \
    ATTRIBUTE void add(const std::byte* x, float w, float* s, std::size_t n) {                   \
        add_loop<Type>(x, w, s, n);                                                              \
    }                                                                                            \
    template <typename Type>                                                                     \
    ATTRIBUTE void add_difference(const std::byte* x, const float* b, float w, float* s,         \
                                  std::size_t n) {                                               \
        b == s ? approach_loop<Type>(x, w, s, n) : add_difference_loop<Type>(x, b, w, s, n);     \
    }                                                                                            \
    ATTRIBUTE void settle(const float* s, float* o, std::size_t n) {                             \
        settle_loop(s, o, n);                                                                    \
    }                                                                                            \
    constexpr SumKernels kSums{{begin<StoredF32>, add<StoredF32>, add_difference<StoredF32>},    \
                               {begin<StoredBf16>, add<StoredBf16>, add_difference<StoredBf16>}, \
                               settle};                                                          \
    }

namespace {

SHARDWELD_SUMS(portable_sum_set, )
#if defined(__x86_64__)
SHARDWELD_SUMS(avx2_sum_set, __attribute__((target("avx2"))))
SHARDWELD_SUMS(avx512_sum_set, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

}  // namespace

const SumKernels& portable_sums() {
    return portable_sum_set::kSums;
}

const SumKernels* avx2_sums() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0 ? &avx2_sum_set::kSums : nullptr;
#else
    return nullptr;
#endif
}

const SumKernels* avx512_sums() {
#if defined(__x86_64__)
    const bool has_all =
        __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
        __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
    return has_all ? &avx512_sum_set::kSums : nullptr;
#else
    return nullptr;
#endif
}

const SumKernels& best_sums() {
    static const SumKernels& best = avx512_sums() != nullptr ? *avx512_sums()
                                    : avx2_sums() != nullptr ? *avx2_sums()
                                                             : portable_sums();
    return best;
}

}  // namespace shardweld::numeric
