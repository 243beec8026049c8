// NVFP4: E2M1 codes, E4M3FN scales for 16 values and a divisor of these, bit for bit those of
// compressed-tensors 0.20 (generate_gparam and calculate_qparams in quantization/utils/helpers.py).
#include <algorithm>
#include <array>
#include <cmath>

#include "numeric/coder.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

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

void encode_nvfp4(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                  std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_quotient(values.data(), operand, 0.0F, codes, values.size());
}

/// 448 * 6 / largest: reciprocal and product each rounded to the weight's type.
float nvfp4_divisor(float largest, DType weight) {
    constexpr float kRange = kLargestE4m3 * kLargestE2m1;
    const float tiny = weight == DType::f16 ? 0x1p-14F : 0x1p-126F;
    const float reciprocal = rounded_to(weight, 1.0F / std::max(largest, tiny));
    const float global = rounded_to(weight, reciprocal * kRange);
    return std::isfinite(global) ? global : 1.0F;
}

constexpr Coder kNvfp4Coder{store_nvfp4_scale, encode_nvfp4, nvfp4_step, decode_e2m1, kLargestE2m1};

constexpr std::array kNvfp4Rows = {EncodingFacts{.name = "nvfp4a16",
                                                 .alias = "NVFP4A16",
                                                 .tile_columns = 16,
                                                 .code_bits = 4,
                                                 .scales = DType::f8_e4m3,
                                                 .codes_ending = "_packed",
                                                 .scales_ending = "_scale",
                                                 .format = "nvfp4-pack-quantized",
                                                 .divisor = nvfp4_divisor,
                                                 .coder = &kNvfp4Coder}};

}  // namespace

const std::span<const EncodingFacts> encodings::nvfp4{kNvfp4Rows};

}  // namespace shardweld::numeric
