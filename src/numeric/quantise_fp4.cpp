// FP4: E2M1 codes of NVFP4, of MXFP4 and of gpt-oss. Sources: compressed-tensors 0.20
// (quantization/utils/mxfp4_utils.py, helpers.py), triton_kernels' downcast_to_mxfp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "coder.hpp"
#include "quantise.hpp"

namespace shardweld::numeric {

namespace {

constexpr float kLargestE2m1 = 6;
constexpr std::uint32_t kMostExponent = 252;  // 6 * 2^(253 - 127) is infinite

float store_nvfp4_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    const float local = rounded_to(rows.weight, largest / kLargestE2m1);
    const std::uint32_t code = E4m3::from_f32(std::bit_cast<std::uint32_t>(rows.global * local));
    constexpr std::uint32_t kEighth = 0x20;
    *stored = static_cast<std::byte>(code == 0 ? kEighth : code);
    return e4m3_value(*stored) / rows.global;
}

float nvfp4_step(const QuantisedRows& rows, const std::byte* stored) {
    return e4m3_value(*stored) / rows.global;
}

/// The exponent of the largest value, one up from a mantissa of 1.75; two below it, so that 4 is
/// the largest power of two among the codes.
float store_mx_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(largest) + 0x200000U) >> 23U;
    const std::uint32_t byte = std::clamp<std::uint32_t>(exponent, 2, kMostExponent + 2) - 2;
    *stored = static_cast<std::byte>(byte);
    return power_of_two(byte);
}

float mx_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return power_of_two(std::to_integer<std::uint32_t>(*stored));
}

/// Negative quotients that the weight's type rounds to zero lose their sign.
float rounds_to_zero(DType weight) {
    return weight == DType::bf16 ? 0x1p-134F : weight == DType::f16 ? 0x1p-25F : 0.0F;
}

void encode_nvfp4(const QuantisedRows& /*rows*/, const Lanes& lanes, const float* values,
                  float operand, std::uint8_t* codes, std::size_t n) {
    lanes.e2m1_of_quotient(values, operand, 0.0F, codes, n);
}

void encode_mx(const QuantisedRows& rows, const Lanes& lanes, const float* values, float operand,
               std::uint8_t* codes, std::size_t n) {
    lanes.e2m1_of_quotient(values, operand, rounds_to_zero(rows.weight), codes, n);
}

/// 2^ceil(log2(largest / 6)): never clips.
float store_gptoss_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const auto bits = std::bit_cast<std::uint32_t>(largest / kLargestE2m1);
    const std::uint32_t byte = (bits + 0x7FFFFFU) >> 23U;
    *stored = static_cast<std::byte>(byte);
    return byte == 0 ? 0.0F : std::ldexp(1.0F, 127 - static_cast<int>(byte));
}

void encode_gptoss(const QuantisedRows& /*rows*/, const Lanes& lanes, const float* values,
                   float operand, std::uint8_t* codes, std::size_t n) {
    lanes.e2m1_of_product(values, operand, codes, n);
}

void decode_e2m1(const Lanes& lanes, const std::uint8_t* codes, float* values, std::size_t n) {
    lanes.of_e2m1(codes, values, n);
}

}  // namespace

const Coder& fp4_coder(Encoding encoding) {
    static constexpr Coder kNvidia{store_nvfp4_scale, encode_nvfp4, nvfp4_step, decode_e2m1,
                                   kLargestE2m1};
    static constexpr Coder kMicroscaling{store_mx_scale, encode_mx, mx_step, decode_e2m1,
                                         kLargestE2m1};
    static constexpr Coder kGptoss{store_gptoss_scale, encode_gptoss, mx_step, decode_e2m1,
                                   kLargestE2m1};
    return encoding == Encoding::nvfp4a16 ? kNvidia
           : encoding == Encoding::mxfp4  ? kMicroscaling
                                          : kGptoss;
}

float nvfp4_global(float largest, DType weight) {
    constexpr float kRange = 448 * kLargestE2m1;
    const float tiny = weight == DType::f16 ? 0x1p-14F : 0x1p-126F;
    const float reciprocal = rounded_to(weight, 1.0F / std::max(largest, tiny));
    const float global = rounded_to(weight, reciprocal * kRange);
    return std::isfinite(global) ? global : 1.0F;
}

}  // namespace shardweld::numeric
