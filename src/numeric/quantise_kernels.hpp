// Loops over runs of fp32 values that quantising is made of, one set per instruction set; all sets
// give the same bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quality.hpp"

namespace shardweld::numeric {

/// The quantising loops of one instruction set.
struct QuantiseKernels {
    /// Bits of the largest magnitude; a NaN's are above an infinity's.
    std::uint32_t (*largest)(const float* x, std::size_t n);
    /// E4M3FN of x * factor, x / divisor: nearest even, 448 at most. No NaN. A quotient of -0
    /// counts as 0: compressed-tensors adds a zero point.
    void (*e4m3_of_product)(const float* x, float factor, std::uint8_t* codes, std::size_t n);
    void (*e4m3_of_quotient)(const float* x, float divisor, std::uint8_t* codes, std::size_t n);
    /// x / divisor, at least -half and at most half - 1, to nearest even, plus half.
    void (*integer_of_quotient)(const float* x, float divisor, float half, std::uint8_t* codes,
                                std::size_t n);
    /// E2M1 of x / divisor, 6 at most; the sign is that of quotients below -`zero` only.
    void (*e2m1_of_quotient)(const float* x, float divisor, float zero, std::uint8_t* codes,
                             std::size_t n);
    /// E2M1 of x * factor; the sign is x's.
    void (*e2m1_of_product)(const float* x, float factor, std::uint8_t* codes, std::size_t n);
    /// Two codes of four bits in a byte, the first one low; `n` bytes.
    void (*pack_nibbles)(const std::uint8_t* codes, std::uint8_t* bytes, std::size_t n);
    /// The codes of such bytes.
    void (*unpack_nibbles)(const std::uint8_t* bytes, std::uint8_t* codes, std::size_t n);
    /// Values of codes: E4M3FN, E2M1, code - half.
    void (*of_e4m3)(const std::uint8_t* codes, float* x, std::size_t n);
    void (*of_e2m1)(const std::uint8_t* codes, float* x, std::size_t n);
    void (*of_integer)(const std::uint8_t* codes, float half, float* x, std::size_t n);
    void (*multiply)(float* x, float factor, std::size_t n);
    /// Adds a row of `n` values in tiles of `tile`, which are read as their codes' values times a
    /// step: to `squares` of each tile those of errors and then those of values, to the counts of
    /// `found` what is larger than `most`, which is not negative, and what is read as zero. Sums
    /// are made of eight, one for each index modulo 8, so that their order is the same on every
    /// processor.
    void (*compare)(const float* x, const float* codes, const float* steps, const float* most,
                    std::size_t tile, std::size_t n, double* squares, Quality* found);
};

/// Of instruction_set().
const QuantiseKernels& best_quantise_kernels();

}  // namespace shardweld::numeric
