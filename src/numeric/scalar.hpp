// Casts of one element between bit patterns, in integer and fp32 arithmetic without branches.
#pragma once

#include <bit>
#include <cstdint>

namespace shardweld::numeric {

inline constexpr std::uint32_t kF32Magnitude = 0x7FFFFFFF;
inline constexpr std::uint32_t kF32Infinity = 0x7F800000;
inline constexpr std::uint32_t kF32Quiet = 0x00400000;

inline std::uint16_t bf16_from_f32(std::uint32_t bits) {
    const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16U) & 1U)) >> 16U;
    const std::uint32_t nan = ((bits >> 16U) & 0x8000U) | 0x7FC0U;
    return static_cast<std::uint16_t>((bits & kF32Magnitude) > kF32Infinity ? nan : rounded);
}

inline std::uint32_t f32_from_bf16(std::uint16_t bits) {
    return static_cast<std::uint32_t>(bits) << 16U;
}

inline std::uint16_t f16_from_f32(std::uint32_t bits) {
    const std::uint32_t magnitude = bits & kF32Magnitude;
    // Normal numbers: the exponent's bias drops by 112, the lowest 13 bits are rounded away.
    const std::uint32_t normal =
        (magnitude - 0x38000000U + 0xFFFU + ((magnitude >> 13U) & 1U)) >> 13U;
    // Below 2^-14: 0.5 in fp32 has f16's smallest subnormal as its last bit, so the sum is rounded
    // there.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    std::uint32_t result = magnitude < 0x38800000U ? subnormal : normal;
    result = magnitude >= 0x477FF000U ? 0x7C00U : result;  // 65520 and above round to infinity
    result = magnitude > kF32Infinity ? 0x7E00U : result;
    return static_cast<std::uint16_t>(result | ((bits >> 16U) & 0x8000U));
}

inline std::uint32_t f32_from_f16(std::uint16_t bits) {
    // In the upper half, where no compiler takes the arithmetic for that of 16 bits.
    const std::uint32_t upper = static_cast<std::uint32_t>(bits) << 16U;
    const std::uint32_t magnitude = upper & kF32Magnitude;
    const std::uint32_t normal = (magnitude >> 3U) + 0x38000000U;
    const std::uint32_t special =
        ((magnitude >> 3U) + 0x70000000U) | (magnitude > 0x7C000000U ? kF32Quiet : 0U);
    // The inverse of the sum above; exact.
    const auto subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(0x3F000000U + (magnitude >> 16U)) - 0.5F);
    std::uint32_t result = magnitude < 0x04000000U ? subnormal : normal;
    result = magnitude >= 0x7C000000U ? special : result;
    return result | (upper ^ magnitude);
}

/// Magnitudes of floats with few bits, an exponent above the mantissa, without infinities.
template <unsigned kMantissa, std::uint32_t kBias, std::uint32_t kLargest>
struct SmallFloat {
    static constexpr unsigned kShift = 23 - kMantissa;
    static constexpr std::uint32_t kOne = 1U << 23U;              // of fp32's exponent
    static constexpr std::uint32_t kZero = (127 - kBias) << 23U;  // what the exponents differ by
    static constexpr std::uint32_t kNormal = kZero + kOne;        // the smallest normal number
    // The power of two that has the smallest subnormal as its last bit: sums are rounded there.
    static constexpr std::uint32_t kRounder = (127 + 24 - kBias - kMantissa) << 23U;

    /// To nearest even, the largest number at most.
    static std::uint32_t from_f32(std::uint32_t magnitude) {
        const std::uint32_t bits = magnitude < kLargest ? magnitude : kLargest;
        const std::uint32_t half = (1U << (kShift - 1)) - 1U + ((bits >> kShift) & 1U);
        const std::uint32_t normal = (bits + half - kZero) >> kShift;
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) +
                                         std::bit_cast<float>(kRounder)) -
            kRounder;
        return bits < kNormal ? subnormal : normal;
    }
    static std::uint32_t to_f32(std::uint32_t code) {
        const std::uint32_t bits = code << kShift;
        const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits + kNormal) -
                                                            std::bit_cast<float>(kNormal));
        return bits < kOne ? subnormal : bits + kZero;
    }
};

/// OCP 8-bit floating point specification 1.0: 448 is the largest, all ones is NaN.
using E4m3 = SmallFloat<3, 7, 0x43E00000>;
/// OCP Microscaling Formats 1.0: 0 .5 1 1.5 2 3 4 6.
using E2m1 = SmallFloat<1, 1, 0x40C00000>;

/// A NaN without its sign.
inline std::uint32_t f32_from_e4m3(std::uint32_t code) {
    const std::uint32_t magnitude = code & 0x7FU;
    const std::uint32_t value = E4m3::to_f32(magnitude) | (code & 0x80U) << 24U;
    return magnitude == 0x7FU ? kF32Infinity | kF32Quiet : value;
}

/// Rounds to odd: an inexact result is truncated and its last bit set, so that it lies strictly on
/// the right side of every value (and midpoint) of a type that has at least two bits less. Rounding
/// it to such a type equals rounding the double itself, once. NaN: any NaN of that sign.
inline std::uint32_t f32_from_f64_odd(std::uint64_t bits) {
    const auto exact = std::bit_cast<double>(bits & 0x7FFFFFFFFFFFFFFFU);
    const auto nearest = static_cast<float>(exact);
    const auto back = static_cast<double>(nearest);
    auto result = std::bit_cast<std::uint32_t>(nearest);
    result -= back > exact ? 1U : 0U;
    result |= back < exact || back > exact ? 1U : 0U;
    return result | static_cast<std::uint32_t>((bits >> 32U) & 0x80000000U);
}

}  // namespace shardweld::numeric
