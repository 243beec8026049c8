// The loops are written once, without branches, and compiled for each instruction set.
#include "quantise_kernels.hpp"

#include <bit>
#include <cstring>
#include <numeric>

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

/// Squares by index modulo 8, first errors', then values'.
constexpr std::size_t kSquares = 16;

template <typename Floats, typename Doubles>
SHARDWELD_LOOP void add_eight(const float* x, const float* codes, float step, Doubles* squares) {
    constexpr std::size_t kWidth = sizeof(Doubles) / sizeof(double);
    constexpr std::size_t kParts = 8 / kWidth;
    for (std::size_t part = 0; part < kParts; ++part) {
        Floats value;
        Floats read;
        std::memcpy(&value, x + part * kWidth, sizeof(value));
        std::memcpy(&read, codes + part * kWidth, sizeof(read));
        read *= step;
        const Doubles wide = __builtin_convertvector(value, Doubles);
        const Doubles error = wide - __builtin_convertvector(read, Doubles);
        squares[part] += error * error;
        squares[kParts + part] += wide * wide;
    }
}

/// Of one tile.
template <typename Floats, typename Doubles>
SHARDWELD_LOOP void take_squares(const float* x, const float* codes, float step, std::size_t n,
                                 double* out) {
    Doubles squares[kSquares * sizeof(double) / sizeof(Doubles)] = {};
    std::size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        add_eight<Floats>(x + i, codes + i, step, squares);
    }
    if (i < n) {
        float rest[8] = {};
        float codes_of_rest[8] = {};
        for (std::size_t j = 0; i + j < n; ++j) {
            rest[j] = x[i + j];
            codes_of_rest[j] = codes[i + j];
        }
        add_eight<Floats>(rest, codes_of_rest, step, squares);
    }
    std::memcpy(out, squares, sizeof(squares));
}

/// How many values of a row are saturated and zeroed, by place in a register.
struct Counts {
    static constexpr std::size_t kPlaces = 16;
    std::uint32_t saturated[kPlaces] = {};
    std::uint32_t zeroed[kPlaces] = {};

    SHARDWELD_LOOP void add(const float* x, const float* codes, float step, float most,
                            std::size_t n) {
        for (std::size_t i = 0; i < n; ++i) {
            const auto magnitude =
                std::bit_cast<float>(std::bit_cast<std::uint32_t>(x[i]) & kF32Magnitude);
            saturated[i] += magnitude > most ? 1U : 0U;
            zeroed[i] += static_cast<std::uint32_t>(x[i] != 0) &
                         static_cast<std::uint32_t>(codes[i] * step == 0);
        }
    }
    /// Of one tile.
    SHARDWELD_LOOP void add_tile(const float* x, const float* codes, float step, float most,
                                 std::size_t n) {
        std::size_t i = 0;
        for (; i + kPlaces <= n; i += kPlaces) {
            add(x + i, codes + i, step, most, kPlaces);
        }
        add(x + i, codes + i, step, most, n - i);
    }
    SHARDWELD_LOOP static Index total(const std::uint32_t* counts) {
        return std::accumulate(counts, counts + kPlaces, Index{0});
    }
};

template <std::size_t kN>
SHARDWELD_LOOP void add_neighbours(const double* from, double* sums) {
    for (std::size_t i = 0; i < kN; ++i) {
        sums[i] = from[2 * i] + from[2 * i + 1];
    }
}

template <typename Floats, typename Doubles>
// NOLINTNEXTLINE(readability-function-size)
SHARDWELD_LOOP void compare_loop(const float* x, const float* codes, const float* steps,
                                 const float* most, std::size_t tile, std::size_t n,
                                 double* squares, Quality* found) {
    constexpr std::size_t kTiles = 8;  // whose sums are added up together
    double eighths[kTiles * kSquares] = {};
    double quarters[kTiles * kSquares / 2];
    double halves[kTiles * kSquares / 4];
    double sums[kTiles * kSquares / 8];
    Counts counts;
    std::size_t at = 0;
    for (std::size_t begin = 0; begin < n;) {
        std::size_t n_tiles = 0;
        for (; n_tiles < kTiles && begin < n; ++n_tiles, ++at, begin += tile) {
            const std::size_t width = n - begin < tile ? n - begin : tile;
            take_squares<Floats, Doubles>(x + begin, codes + begin, steps[at], width,
                                          eighths + n_tiles * kSquares);
            counts.add_tile(x + begin, codes + begin, steps[at], most[at], width);
        }
        add_neighbours<kTiles * kSquares / 2>(eighths, quarters);
        add_neighbours<kTiles * kSquares / 4>(quarters, halves);
        add_neighbours<kTiles * kSquares / 8>(halves, sums);
        for (std::size_t i = 0; i < 2 * n_tiles; ++i) {
            squares[2 * (at - n_tiles) + i] += sums[i];
        }
    }
    found->n_saturated += counts.total(counts.saturated);
    found->n_zeroed += counts.total(counts.zeroed);
}

template <template <auto> class Set, typename Floats, typename Doubles>
constexpr QuantiseKernels kQuantiseKernels{Set<largest_loop>::run,
                                           Set<e4m3_product_loop>::run,
                                           Set<e4m3_quotient_loop>::run,
                                           Set<integer_loop>::run,
                                           Set<e2m1_quotient_loop>::run,
                                           Set<e2m1_product_loop>::run,
                                           Set<pack_loop>::run,
                                           Set<unpack_loop>::run,
                                           Set<of_e4m3_loop>::run,
                                           Set<of_e2m1_loop>::run,
                                           Set<of_integer_loop>::run,
                                           Set<multiply_loop>::run,
                                           Set<compare_loop<Floats, Doubles>>::run};

}  // namespace

const QuantiseKernels& best_quantise_kernels() {
    const InstructionSet set = instruction_set();
    return set == InstructionSet::avx512 ? kQuantiseKernels<Avx512, EightFloats, EightDoubles>
           : set == InstructionSet::avx2 ? kQuantiseKernels<Avx2, FourFloats, FourDoubles>
                                         : kQuantiseKernels<Portable, TwoFloats, TwoDoubles>;
}

}  // namespace shardweld::numeric
