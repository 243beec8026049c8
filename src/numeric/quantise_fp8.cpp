// FP8 by blocks and by rows: E4M3FN codes. Sources: transformers 5.23 finegrained_fp8.py,
// compressed-tensors 0.20 quantization/utils/helpers.py.
#include <algorithm>
#include <cmath>

#include "coder.hpp"
#include "quantise.hpp"

namespace shardweld::numeric {

namespace {

constexpr float kLargestE4m3 = 448;
// Below 448 / FLT_MAX the factor overflows, zeros would become NaN.
constexpr float kTiny = 0x1p-119F;

/// "_FP8_MAX / tensor" in torch is the reciprocal times 448: two roundings.
float block_factor(float largest) {
    return largest < kTiny ? 1.0F : 1.0F / largest * kLargestE4m3;
}

float store_block_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const float factor = block_factor(largest);
    store_value(DType::f32, 1.0F / factor, stored);
    return factor;
}

float store_e8m0_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const float inverse = std::max(1.0F / block_factor(largest), 0x1p-126F);
    const auto bits = std::bit_cast<std::uint32_t>(inverse);
    const std::uint32_t exponent = (bits + 0x7FFFFFU) >> 23U;  // of the power of two at or above it
    *stored = static_cast<std::byte>(exponent);
    return 1.0F / power_of_two(exponent);
}

float store_row_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    return store_scale(rows, largest, kLargestE4m3, stored);
}

void encode_product(const QuantisedRows& /*rows*/, const Lanes& lanes, const float* values,
                    float operand, std::uint8_t* codes, std::size_t n) {
    lanes.e4m3_of_product(values, operand, codes, n);
}

void encode_quotient(const QuantisedRows& /*rows*/, const Lanes& lanes, const float* values,
                     float operand, std::uint8_t* codes, std::size_t n) {
    lanes.e4m3_of_quotient(values, operand, codes, n);
}

float f32_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return load_value(DType::f32, stored);
}

float e8m0_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return power_of_two(std::to_integer<std::uint32_t>(*stored));
}

float weight_step(const QuantisedRows& rows, const std::byte* stored) {
    return load_value(rows.weight, stored);
}

void decode_e4m3(const Lanes& lanes, const std::uint8_t* codes, float* values, std::size_t n) {
    lanes.of_e4m3(codes, values, n);
}

}  // namespace

const Coder& fp8_coder(Encoding encoding) {
    static constexpr Coder kBlock{store_block_scale, encode_product, f32_step, decode_e4m3,
                                  kLargestE4m3};
    static constexpr Coder kPowers{store_e8m0_scale, encode_product, e8m0_step, decode_e4m3,
                                   kLargestE4m3};
    static constexpr Coder kCompressed{store_row_scale, encode_quotient, weight_step, decode_e4m3,
                                       kLargestE4m3};
    return encoding == Encoding::fp8_block         ? kBlock
           : encoding == Encoding::fp8_block_ue8m0 ? kPowers
                                                   : kCompressed;
}

}  // namespace shardweld::numeric
