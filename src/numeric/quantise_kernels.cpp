// The loops are written once, without branches, and compiled for each instruction set.
#include "quantise_kernels.hpp"

#include <bit>
#include <cstring>

#include "instruction_sets.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

SHARDWELD_LOOP std::uint32_t sign_of(std::uint32_t bits, unsigned at) {
    return bits >> 31U << at;
}

SHARDWELD_LOOP std::uint8_t e4m3_code(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint8_t>(E4m3::from_f32(bits & kF32Magnitude) | sign_of(bits, 7));
}

SHARDWELD_LOOP std::uint32_t largest_loop(const float* x, std::size_t n) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & kF32Magnitude;
        largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
}

SHARDWELD_LOOP void e4m3_product_loop(const float* x, float factor, std::uint8_t* codes,
                                      std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[i] = e4m3_code(x[i] * factor);
    }
}

SHARDWELD_LOOP void e4m3_quotient_loop(const float* x, float divisor, std::uint8_t* codes,
                                       std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[i] = e4m3_code(x[i] / divisor + 0.0F);  // -0 becomes 0
    }
}

SHARDWELD_LOOP void integer_loop(const float* x, float divisor, float half, std::uint8_t* codes,
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
SHARDWELD_LOOP void by_sixteen(std::uint8_t* codes, std::size_t n, Code code) {
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

SHARDWELD_LOOP void e2m1_quotient_loop(const float* x, float divisor, float zero,
                                       std::uint8_t* codes, std::size_t n) {
    const auto smallest = std::bit_cast<std::uint32_t>(zero);
    by_sixteen(codes, n, [=](std::size_t i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] / divisor);
        const std::uint32_t magnitude = bits & kF32Magnitude;
        const std::uint32_t sign = magnitude > smallest ? sign_of(bits, 3) : 0U;
        return E2m1::from_f32(magnitude) | sign;
    });
}

SHARDWELD_LOOP void e2m1_product_loop(const float* x, float factor, std::uint8_t* codes,
                                      std::size_t n) {
    by_sixteen(codes, n, [=](std::size_t i) {
        const auto bits = std::bit_cast<std::uint32_t>(x[i] * factor);
        return E2m1::from_f32(bits & kF32Magnitude) | sign_of(bits, 3);
    });
}

// A kernel takes numbers, no structures. NOLINTNEXTLINE(readability-function-size)
SHARDWELD_LOOP void whole_loop(const float* x, float low, float factor, float shift, int top,
                               std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const auto whole = static_cast<int>((x[i] - low) * factor + shift);
        codes[i] = static_cast<std::uint8_t>(whole < top ? whole : top);
    }
}

SHARDWELD_LOOP void byte_loop(const float* x, float factor, std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const float product = x[i] * factor;
        const auto bits = std::bit_cast<std::uint32_t>(product);
        const auto magnitude = std::bit_cast<float>(bits & kF32Magnitude);
        const auto whole = static_cast<int>(magnitude);
        const int away = magnitude - static_cast<float>(whole) >= 0.5F ? whole + 1 : whole;
        codes[i] = static_cast<std::uint8_t>(bits >> 31U != 0 ? -away : away);
    }
}

SHARDWELD_LOOP void extremes_loop(const float* x, std::size_t n, float* least, float* most) {
    float smallest = x[0];
    float largest = x[0];
    for (std::size_t i = 1; i < n; ++i) {
        smallest = x[i] < smallest ? x[i] : smallest;
        largest = x[i] > largest ? x[i] : largest;
    }
    *least = smallest;
    *most = largest;
}

SHARDWELD_LOOP void pack_loop(const std::uint8_t* codes, std::uint8_t* bytes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        bytes[i] = static_cast<std::uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4U));
    }
}

SHARDWELD_LOOP void unpack_loop(const std::uint8_t* bytes, std::uint8_t* codes, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        codes[2 * i] = bytes[i] & 15U;
        codes[2 * i + 1] = bytes[i] >> 4U;
    }
}

SHARDWELD_LOOP void of_e4m3_loop(const std::uint8_t* codes, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = std::bit_cast<float>(f32_from_e4m3(codes[i]));
    }
}

SHARDWELD_LOOP void of_e2m1_loop(const std::uint8_t* codes, float* x, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        const std::uint32_t sign = (codes[i] & 8U) << 28U;
        x[i] = std::bit_cast<float>(E2m1::to_f32(codes[i] & 7U) | sign);
    }
}

SHARDWELD_LOOP void of_integer_loop(const std::uint8_t* codes, float half, float* x,
                                    std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] = static_cast<float>(codes[i]) - half;
    }
}

SHARDWELD_LOOP void multiply_loop(float* x, float factor, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
        x[i] *= factor;
    }
}

// What fills one register of doubles.
using TwoFloats = float __attribute__((vector_size(8)));
using TwoDoubles = double __attribute__((vector_size(16)));
using FourFloats = float __attribute__((vector_size(16)));
using FourDoubles = double __attribute__((vector_size(32)));
using EightFloats = float __attribute__((vector_size(32)));
using EightDoubles = double __attribute__((vector_size(64)));

/// Sums of squares by index modulo 8.
template <typename Floats, typename Doubles>
struct SquareSums {
    static constexpr std::size_t kWidth = sizeof(Doubles) / sizeof(double);
    static constexpr std::size_t kParts = 8 / kWidth;

    Doubles errors[kParts] = {};
    Doubles values[kParts] = {};

    SHARDWELD_LOOP void add_eight(const float* x, const float* codes, float step) {
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
    SHARDWELD_LOOP static double total(const Doubles (&sums)[kParts]) {
        const auto at = [&](std::size_t i) { return sums[i / kWidth][i % kWidth]; };
        return ((at(0) + at(1)) + (at(2) + at(3))) + ((at(4) + at(5)) + (at(6) + at(7)));
    }
};

template <typename Floats, typename Doubles>
SHARDWELD_LOOP void squares_loop(const float* x, const float* codes, float step, std::size_t n,
                                 Quality* found) {
    SquareSums<Floats, Doubles> sums;
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
    found->error_squares += sums.total(sums.errors);
    found->value_squares += sums.total(sums.values);
}

template <typename Floats, typename Doubles>
// NOLINTNEXTLINE(readability-function-size)
SHARDWELD_LOOP void compare_loop(const float* x, const float* codes, float step, float most,
                                 std::size_t n, Quality* found) {
    squares_loop<Floats, Doubles>(x, codes, step, n, found);
    std::uint32_t n_saturated = 0;
    std::uint32_t n_zeroed = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const auto magnitude =
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[i]) & kF32Magnitude);
        n_saturated += magnitude > most ? 1U : 0U;
        n_zeroed += static_cast<std::uint32_t>(x[i] != 0) &
                    static_cast<std::uint32_t>(codes[i] * step == 0);
    }
    found->n_saturated += n_saturated;
    found->n_zeroed += n_zeroed;
}

template <template <auto> class Set, typename Floats, typename Doubles>
constexpr QuantiseKernels kQuantiseKernels{
    Set<largest_loop>::run,       Set<e4m3_product_loop>::run,
    Set<e4m3_quotient_loop>::run, Set<integer_loop>::run,
    Set<e2m1_quotient_loop>::run, Set<e2m1_product_loop>::run,
    Set<whole_loop>::run,         Set<byte_loop>::run,
    Set<extremes_loop>::run,      Set<pack_loop>::run,
    Set<unpack_loop>::run,        Set<of_e4m3_loop>::run,
    Set<of_e2m1_loop>::run,       Set<of_integer_loop>::run,
    Set<multiply_loop>::run,      Set<compare_loop<Floats, Doubles>>::run};

}  // namespace

const QuantiseKernels& portable_quantise_kernels() {
    return kQuantiseKernels<Portable, TwoFloats, TwoDoubles>;
}

const QuantiseKernels* avx2_quantise_kernels() {
    return has_avx2() ? &kQuantiseKernels<Avx2, FourFloats, FourDoubles> : nullptr;
}

const QuantiseKernels* avx512_quantise_kernels() {
    return has_avx512() ? &kQuantiseKernels<Avx512, EightFloats, EightDoubles> : nullptr;
}

const QuantiseKernels& best_quantise_kernels() {
    static const QuantiseKernels& best =
        has_avx512() ? kQuantiseKernels<Avx512, EightFloats, EightDoubles>
        : has_avx2() ? kQuantiseKernels<Avx2, FourFloats, FourDoubles>
                     : kQuantiseKernels<Portable, TwoFloats, TwoDoubles>;
    return best;
}

}  // namespace shardweld::numeric
