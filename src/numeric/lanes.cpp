// The loops are written once, without branches, and compiled for each instruction set.
#include "lanes.hpp"

#include <bit>
#include <cstring>

#include "scalar.hpp"

#define SHARDWELD_INLINE inline __attribute__((always_inline))

namespace shardweld::numeric {

namespace {

SHARDWELD_INLINE std::uint32_t sign_of(std::uint32_t bits, unsigned at) {
    return bits >> 31U << at;
}

SHARDWELD_INLINE std::uint8_t e4m3_code(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint8_t>(E4m3::from_f32(bits & kF32Magnitude) | sign_of(bits, 7));
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

/// Tiles of 16 values fill no register of codes: their loop has that length.
template <typename Code>
SHARDWELD_INLINE void by_sixteen(std::uint8_t* codes, std::size_t n, Code code) {
    if (n == 16) {
        for (std::size_t i = 0; i < 16; ++i) {
            codes[i] = static_cast<std::uint8_t>(code(i));
        }
        return;
    }
    for (std::size_t i = 0; i < n; ++i) {
        codes[i] = static_cast<std::uint8_t>(code(i));
    }
}

SHARDWELD_INLINE void e2m1_quotient_loop(const float* x, float divisor, float zero,
                                         std::uint8_t* codes, std::size_t n) {
    const auto smallest = std::bit_cast<std::uint32_t>(zero);
    by_sixteen(codes, n, [=](std::size_t i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] / divisor);
        const std::uint32_t magnitude = bits & kF32Magnitude;
        const std::uint32_t sign = magnitude > smallest ? sign_of(bits, 3) : 0U;
        return E2m1::from_f32(magnitude) | sign;
    });
}

SHARDWELD_INLINE void e2m1_product_loop(const float* x, float factor, std::uint8_t* codes,
                                        std::size_t n) {
    by_sixteen(codes, n, [=](std::size_t i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] * factor);
        return E2m1::from_f32(bits & kF32Magnitude) | sign_of(bits, 3);
    });
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

SHARDWELD_INLINE void unpack_loop(const std::uint8_t* bytes, std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[2 * i] = bytes[i] & 15U;
        codes[2 * i + 1] = bytes[i] >> 4U;
    }
}

SHARDWELD_INLINE void of_e4m3_loop(const std::uint8_t* codes, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = std::bit_cast<float>(f32_from_e4m3(codes[i]));
    }
}

SHARDWELD_INLINE void of_e2m1_loop(const std::uint8_t* codes, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t sign = (codes[i] & 8U) << 28U;
        x[i] = std::bit_cast<float>(E2m1::to_f32(codes[i] & 7U) | sign);
    }
}

SHARDWELD_INLINE void of_integer_loop(const std::uint8_t* codes, float half, float* x,
                                      std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(codes[i]) - half;
    }
}

SHARDWELD_INLINE void multiply_loop(float* x, float factor, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] *= factor;
    }
}

// What fills one register of doubles.
struct Two {
    using Floats = float __attribute__((vector_size(8)));
    using Doubles = double __attribute__((vector_size(16)));
};
struct Four {
    using Floats = float __attribute__((vector_size(16)));
    using Doubles = double __attribute__((vector_size(32)));
};
struct Eight {
    using Floats = float __attribute__((vector_size(32)));
    using Doubles = double __attribute__((vector_size(64)));
};

/// Sums of squares by index modulo 8.
template <typename Registers>
struct SquareSums {
    using Floats = typename Registers::Floats;
    using Doubles = typename Registers::Doubles;
    static constexpr std::size_t kWidth = sizeof(Doubles) / sizeof(double);
    static constexpr std::size_t kParts = 8 / kWidth;

    Doubles errors[kParts] = {};
    Doubles values[kParts] = {};

    SHARDWELD_INLINE void add_eight(const float* x, const float* codes, float step) {
        for (std::size_t part = 0; part < kParts; ++part) {
            Floats value;
            Floats read;
            std::memcpy(&value, x + part * kWidth, sizeof(value));
            std::memcpy(&read, codes + part * kWidth, sizeof(read));
            read *= step;
            const Doubles wide = __builtin_convertvector(value, Doubles);
            const Doubles error = wide - __builtin_convertvector(read, Doubles);
            errors[part] += error * error;
            values[part] += wide * wide;
        }
    }
    SHARDWELD_INLINE static double total(const Doubles (&sums)[kParts]) {
        const auto at = [&](std::size_t i) { return sums[i / kWidth][i % kWidth]; };
        return ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
    }
};

template <typename Registers>
SHARDWELD_INLINE void squares_loop(const float* x, const float* codes, float step, std::size_t n,
                                   Quality* found) {
    SquareSums<Registers> sums;
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        sums.add_eight(x + i, codes + i, step);
    }
    if (i < n) {
        float rest[8] = {};
        float codes_of_rest[8] = {};
        for (std::size_t j = 0; i + j < n; ++j) {
            rest[j] = x[i + j];
            codes_of_rest[j] = codes[i + j];
        }
        sums.add_eight(rest, codes_of_rest, step);
    }
    found->error_squares += SquareSums<Registers>::total(sums.errors);
    found->value_squares += SquareSums<Registers>::total(sums.values);
}

template <typename Registers>
SHARDWELD_INLINE void compare_loop(const float* x, const float* codes, float step, float most,
                                   std::size_t n, Quality* found) {
    squares_loop<Registers>(x, codes, step, n, found);
    std::uint32_t n_saturated = 0;
    std::uint32_t n_zeroed = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const float magnitude =
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[i]) & kF32Magnitude);
        n_saturated += magnitude > most ? 1U : 0U;
        n_zeroed += static_cast<std::uint32_t>(x[i] != 0) &
                    static_cast<std::uint32_t>(codes[i] * step == 0);
    }
    found->n_saturated += n_saturated;
    found->n_zeroed += n_zeroed;
}

}  // namespace

// One set of the loops: NAME is where they are, ATTRIBUTE what they are compiled for.
#define SHARDWELD_LANES(NAME, ATTRIBUTE, REGISTERS)                                            \
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
    ATTRIBUTE void unpack(const std::uint8_t* b, std::uint8_t* c, std::size_t n) {             \
        unpack_loop(b, c, n);                                                                  \
    }                                                                                          \
    ATTRIBUTE void of_e4m3(const std::uint8_t* c, float* x, std::size_t n) {                   \
        of_e4m3_loop(c, x, n);                                                                 \
    }                                                                                          \
    ATTRIBUTE void of_e2m1(const std::uint8_t* c, float* x, std::size_t n) {                   \
        of_e2m1_loop(c, x, n);                                                                 \
    }                                                                                          \
    ATTRIBUTE void of_integer(const std::uint8_t* c, float h, float* x, std::size_t n) {       \
        of_integer_loop(c, h, x, n);                                                           \
    }                                                                                          \
    ATTRIBUTE void multiply(float* x, float f, std::size_t n) {                                \
        multiply_loop(x, f, n);                                                                \
    }                                                                                          \
    ATTRIBUTE void compare(const float* x, const float* c, float s, float m, std::size_t n,    \
                           Quality* q) {                                                       \
        compare_loop<REGISTERS>(x, c, s, m, n, q);                                             \
    }                                                                                          \
    constexpr Lanes kLanes{largest,       e4m3_product, e4m3_quotient, integer,                \
                           e2m1_quotient, e2m1_product, whole,         byte,                   \
                           extremes,      pack,         unpack,        of_e4m3,                \
                           of_e2m1,       of_integer,   multiply,      compare};               \
    }

namespace {

SHARDWELD_LANES(portable_set, , Two)
#if defined(__x86_64__)
SHARDWELD_LANES(avx2_set, __attribute__((target("avx2"))), Four)
SHARDWELD_LANES(avx512_set, __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), Eight)
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
