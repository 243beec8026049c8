// MXFP4: E2M1 codes and powers of two for 32 values, bit for bit those of compressed-tensors 0.20
// (quantization/utils/mxfp4_utils.py).
#include <algorithm>
#include <array>

#include "numeric/coder.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

constexpr std::uint32_t kMostExponent = 252;  // 6 * 2^(253 - 127) is infinite

/// The exponent of the largest value, one up from a mantissa of 1.75; two below it, so that 4 is
/// the largest power of two among the codes.
float store_mx_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(largest) + 0x200000U) >> 23U;
    const std::uint32_t byte = std::clamp<std::uint32_t>(exponent, 2, kMostExponent + 2) - 2;
    *stored = static_cast<std::byte>(byte);
    return power_of_two(byte);
}

/// Negative quotients that the weight's type rounds to zero lose their sign.
float rounds_to_zero(DType weight) {
    return weight == DType::bf16 ? 0x1p-134F : weight == DType::f16 ? 0x1p-25F : 0.0F;
}

void encode_mx(const QuantisedRows& rows, const QuantiseKernels& kernels,
               std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_quotient(values.data(), operand, rounds_to_zero(rows.weight), codes,
                             values.size());
}

constexpr Coder kMxCoder{store_mx_scale, encode_mx, power_step, decode_e2m1, kLargestE2m1};

constexpr std::array kMxRows = {EncodingFacts{.name = "mxfp4",
                                              .alias = "MXFP4A16",
                                              .tile_columns = 32,
                                              .code_bits = 4,
                                              .scales = DType::u8,
                                              .codes_ending = "_packed",
                                              .scales_ending = "_scale",
                                              .format = "mxfp4-pack-quantized",
                                              .coder = &kMxCoder}};

}  // namespace

const std::span<const EncodingFacts> encodings::mxfp4{kMxRows};

}  // namespace shardweld::numeric
