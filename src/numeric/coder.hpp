// What an encoding does with one tile: its scale from the largest value, codes from values, values
// from codes.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "quantise_kernels.hpp"
#include "quantised_rows.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

/// The functions that encode and decode one encoding.
struct Coder {
    /// Stores the scale of a tile whose largest magnitude (finite) this is; gives the operand of
    /// `encode`.
    float (*scale)(const QuantisedRows& rows, float largest, std::byte* stored);
    /// One code for each of these values of a row, unpacked.
    void (*encode)(const QuantisedRows& rows, const QuantiseKernels& kernels,
                   std::span<const float> values, float operand, std::uint8_t* codes);
    /// What codes' values are multiplied with, by the stored scale; NaN: no scale.
    float (*step)(const QuantisedRows& rows, const std::byte* stored);
    /// Values of `n` unpacked codes, without their scale.
    void (*decode)(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                   std::size_t n);
    float largest;  ///< of these
};

/// The loops over blocks of one of GGML's types, each of which holds its own scale, for the
/// processor.
struct BlockCoder {
    /// Of finite values; false where a scale is infinite.
    bool (*(*encode)())(const float* x, std::size_t n_blocks, std::byte* out) = nullptr;
    /// Gives each block's largest magnitude as well.
    void (*(*decode)())(const std::byte* stored, std::size_t n_blocks, float* x,
                        float* most) = nullptr;
};

constexpr float kLargestE4m3 = 448;
constexpr float kLargestE2m1 = 6;

/// Error(unsupported) when the bits of a largest magnitude are those of a NaN or an infinity.
void require_finite(std::uint32_t largest);

/// The value of an E4M3FN code.
inline float e4m3_value(std::byte code) {
    return std::bit_cast<float>(f32_from_e4m3(std::to_integer<std::uint32_t>(code)));
}

/// Rounded once to a type of weights, to nearest even.
inline float rounded_to(DType dtype, float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    switch (dtype) {
        case DType::bf16:
            return std::bit_cast<float>(f32_from_bf16(bf16_from_f32(bits)));
        case DType::f16:
            return std::bit_cast<float>(f32_from_f16(f16_from_f32(bits)));
        default:
            return value;
    }
}

/// A value of f32, or one that the type holds exactly.
inline void store_value(DType dtype, float value, std::byte* out) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint16_t half = dtype == DType::bf16 ? bf16_from_f32(bits) : f16_from_f32(bits);
    if (dtype == DType::f32) {
        std::memcpy(out, &bits, sizeof(bits));
    } else {
        std::memcpy(out, &half, sizeof(half));
    }
}

inline float load_value(DType dtype, const std::byte* stored) {
    if (dtype == DType::f32) {
        float value = 0;
        std::memcpy(&value, stored, sizeof(value));
        return value;
    }
    std::uint16_t half = 0;
    std::memcpy(&half, stored, sizeof(half));
    return std::bit_cast<float>(dtype == DType::bf16 ? f32_from_bf16(half) : f32_from_f16(half));
}

/// 2^(byte - 127), the value of an E8M0 scale; 255 is no number.
inline float power_of_two(std::uint32_t byte) {
    return byte == 0 ? 0x1p-127F
                     : std::bit_cast<float>(byte == 255 ? kF32Infinity | kF32Quiet : byte << 23U);
}

/// compressed-tensors' scale: an exact zero becomes the epsilon of the weight's type.
inline float store_scale(const QuantisedRows& rows, float largest, float range, std::byte* stored) {
    const float scale = rounded_to(rows.weight, largest / range);
    const float epsilon = rows.weight == DType::bf16  ? 0x1p-7F
                          : rows.weight == DType::f16 ? 0x1p-10F
                                                      : 0x1p-23F;
    const float used = scale == 0 ? epsilon : scale;
    store_value(rows.weight, used, stored);
    return used;
}

/// Coder::step of scales of the weight's type.
inline float weight_step(const QuantisedRows& rows, const std::byte* stored) {
    return load_value(rows.weight, stored);
}

/// Coder::step of E8M0 scales.
inline float power_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return power_of_two(std::to_integer<std::uint32_t>(*stored));
}

inline void decode_e4m3(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                        std::size_t n) {
    kernels.of_e4m3(codes, values, n);
}

inline void decode_e2m1(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                        std::size_t n) {
    kernels.of_e2m1(codes, values, n);
}

}  // namespace shardweld::numeric
