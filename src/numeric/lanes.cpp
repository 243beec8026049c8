// The loops are written once, without branches, and compiled for each instruction set.
#include "lanes.hpp"

#include <bit>

#include "scalar.hpp"

#define SHARDWELD_INLINE inline __attribute__((always_inline))

namespace shardweld::numeric {

namespace {

SHARDWELD_INLINE std::uint32_t sign_of(std::uint32_t bits, unsigned at) {
    return bits >> 31U << at;
}

/// OCP 8-bit floating point specification 1.0, E4M3: bias 7, largest 448 (0x7E).
SHARDWELD_INLINE std::uint8_t e4m3_code(float value) {
    constexpr std::uint32_t kLargest = 0x43E00000;  // 448
    constexpr std::uint32_t kNormal = 0x3C800000;   // 2^-6
    constexpr std::uint32_t kBias = (127 - 7) << 3U;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    std::uint32_t magnitude = bits & kF32Magnitude;
    magnitude = magnitude < kLargest ? magnitude : kLargest;
    const std::uint32_t normal =
        ((magnitude + 0x7FFFFU + ((magnitude >> 20U) & 1U)) >> 20U) - kBias;
    // 2^14 has the smallest subnormal, 2^-9, as its last bit: the sum is rounded there.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 16384.0F) - 0x46800000U;
    return static_cast<std::uint8_t>((magnitude < kNormal ? subnormal : normal) | sign_of(bits, 7));
}

/// OCP Microscaling Formats 1.0, E2M1: 0 .5 1 1.5 2 3 4 6. Compared as bits: magnitudes are ordered
/// alike.
SHARDWELD_INLINE std::uint32_t e2m1_magnitude(std::uint32_t magnitude) {
    return (magnitude > 0x3E800000U ? 1U : 0U) +   // 0.25
           (magnitude >= 0x3F400000U ? 1U : 0U) +  // 0.75
           (magnitude > 0x3FA00000U ? 1U : 0U) +   // 1.25
           (magnitude >= 0x3FE00000U ? 1U : 0U) +  // 1.75
           (magnitude > 0x40200000U ? 1U : 0U) +   // 2.5
           (magnitude >= 0x40600000U ? 1U : 0U) +  // 3.5
           (magnitude > 0x40A00000U ? 1U : 0U);    // 5
}

SHARDWELD_INLINE std::uint32_t largest_loop(const float* x, std::size_t n) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & kF32Magnitude;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

SHARDWELD_INLINE void e4m3_product_loop(const float* x, float factor, std::uint8_t* codes,
                                        std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[i] = e4m3_code(x[i] * factor);
    }
}

SHARDWELD_INLINE void e4m3_quotient_loop(const float* x, float divisor, std::uint8_t* codes,
                                         std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[i] = e4m3_code(x[i] / divisor + 0.0F);  // -0 becomes 0
    }
}

SHARDWELD_INLINE void integer_loop(const float* x, float divisor, float half, std::uint8_t* codes,
                                   std::size_t n) {
    constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: its last bit is 1
    for (std::size_t i = 0; i < n; ++i) {
        float value = x[i] / divisor;
        value = value < half - 1 ? value : half - 1;
        value = value > -half ? value : -half;
        const auto rounded = std::bit_cast<std::uint32_t>(value + kRounder);
        codes[i] =
            static_cast<std::uint8_t>(rounded - 0x4B400000U + static_cast<std::uint32_t>(half));
    }
}

SHARDWELD_INLINE void e2m1_quotient_loop(const float* x, float divisor, float zero,
                                         std::uint8_t* codes, std::size_t n) {
    const auto smallest = std::bit_cast<std::uint32_t>(zero);
    for (std::size_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] / divisor);
        const std::uint32_t magnitude = bits & kF32Magnitude;
        const std::uint32_t sign = magnitude > smallest ? sign_of(bits, 3) : 0U;
        codes[i] = static_cast<std::uint8_t>(e2m1_magnitude(magnitude) | sign);
    }
}

SHARDWELD_INLINE void e2m1_product_loop(const float* x, float factor, std::uint8_t* codes,
                                        std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] * factor);
        codes[i] =
            static_cast<std::uint8_t>(e2m1_magnitude(bits & kF32Magnitude) | sign_of(bits, 3));
    }
}

SHARDWELD_INLINE void whole_loop(const float* x, float low, float factor, float shift, int top,
                                 std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto whole = static_cast<int>((x[i] - low) * factor + shift);
        codes[i] = static_cast<std::uint8_t>(whole < top ? whole : top);
    }
}

SHARDWELD_INLINE void byte_loop(const float* x, float factor, std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = x[i] * factor;
        const auto bits = std::bit_cast<std::uint32_t>(product);
        const float magnitude = std::bit_cast<float>(bits & kF32Magnitude);
        const auto whole = static_cast<int>(magnitude);
        const int away = magnitude - static_cast<float>(whole) >= 0.5F ? whole + 1 : whole;
        codes[i] = static_cast<std::uint8_t>(bits >> 31U != 0 ? -away : away);
    }
}

SHARDWELD_INLINE void extremes_loop(const float* x, std::size_t n, float* least, float* most) {
    float smallest = x[0];
    float largest = x[0];
    for (std::size_t i = 1; i < n; ++i) {
        smallest = x[i] < smallest ? x[i] : smallest;
        largest = x[i] > largest ? x[i] : largest;
    }
    *least = smallest;
    *most = largest;
}

SHARDWELD_INLINE void pack_loop(const std::uint8_t* codes, std::uint8_t* bytes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        bytes[i] = static_cast<std::uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4U));
    }
}

}  // namespace

// One set of the loops: NAME is where they are, ATTRIBUTE what they are compiled for.
#define SHARDWELD_LANES(NAME, ATTRIBUTE)                                                       \
    namespace NAME {                                                                           \
    ATTRIBUTE std::uint32_t largest(const float* x, std::size_t n) {                           \
        return largest_loop(x, n);                                                             \
    }                                                                                          \
    ATTRIBUTE void e4m3_product(const float* x, float f, std::uint8_t* c, std::size_t n) {     \
        e4m3_product_loop(x, f, c, n);                                                         \
    }                                                                                          \
    ATTRIBUTE void e4m3_quotient(const float* x, float d, std::uint8_t* c, std::size_t n) {    \
        e4m3_quotient_loop(x, d, c, n);                                                        \
    }                                                                                          \
    ATTRIBUTE void integer(const float* x, float d, float h, std::uint8_t* c, std::size_t n) { \
        integer_loop(x, d, h, c, n);                                                           \
    }                                                                                          \
    ATTRIBUTE void e2m1_quotient(const float* x, float d, float z, std::uint8_t* c,            \
                                 std::size_t n) {                                              \
        e2m1_quotient_loop(x, d, z, c, n);                                                     \
    }                                                                                          \
    ATTRIBUTE void e2m1_product(const float* x, float f, std::uint8_t* c, std::size_t n) {     \
        e2m1_product_loop(x, f, c, n);                                                         \
    }                                                                                          \
    ATTRIBUTE void whole(const float* x, float l, float f, float s, int t, std::uint8_t* c,    \
                         std::size_t n) {                                                      \
        whole_loop(x, l, f, s, t, c, n);                                                       \
    }                                                                                          \
    ATTRIBUTE void byte(const float* x, float f, std::uint8_t* c, std::size_t n) {             \
        byte_loop(x, f, c, n);                                                                 \
    }                                                                                          \
    ATTRIBUTE void extremes(const float* x, std::size_t n, float* l, float* m) {               \
        extremes_loop(x, n, l, m);                                                             \
    }                                                                                          \
    ATTRIBUTE void pack(const std::uint8_t* c, std::uint8_t* b, std::size_t n) {               \
        pack_loop(c, b, n);                                                                    \
    }                                                                                          \
    constexpr Lanes kLanes{largest,      e4m3_product, e4m3_quotient, integer,  e2m1_quotient, \
                           e2m1_product, whole,        byte,          extremes, pack};         \
    }

namespace {

SHARDWELD_LANES(portable_set, )
#if defined(__x86_64__)
SHARDWELD_LANES(avx2_set, __attribute__((target("avx2"))))
SHARDWELD_LANES(avx512_set, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))))
#endif

}  // namespace

const Lanes& portable_lanes() {
    return portable_set::kLanes;
}

const Lanes* avx2_lanes() {
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx2") != 0 ? &avx2_set::kLanes : nullptr;
#else
    return nullptr;
#endif
}

const Lanes* avx512_lanes() {
#if defined(__x86_64__)
    const bool has_all =
        __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
        __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
    return has_all ? &avx512_set::kLanes : nullptr;
#else
    return nullptr;
#endif
}

const Lanes& best_lanes() {
    static const Lanes& best = avx512_lanes() != nullptr ? *avx512_lanes()
                               : avx2_lanes() != nullptr ? *avx2_lanes()
                                                         : portable_lanes();
    return best;
}

}  // namespace shardweld::numeric
