// Integers of 8 and 4 bits, symmetric. Source: compressed-tensors 0.20, quantization/utils and
// compressors/pack_quantized; quotients in fp32, as its GPU kernels divide.
#include "coder.hpp"
#include "quantise.hpp"

namespace shardweld::numeric {

namespace {

constexpr float kHalf8 = 128;
constexpr float kHalf4 = 8;

/// Half of the range of codes, largest less smallest.
template <const float& kHalf>
float store_integer_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    return store_scale(rows, largest, kHalf - 0.5F, stored);
}

template <const float& kHalf>
void encode_integer(const QuantisedRows& /*rows*/, const Lanes& lanes, const float* values,
                    float operand, std::uint8_t* codes, std::size_t n) {
    lanes.integer_of_quotient(values, operand, kHalf, codes, n);
}

float integer_step(const QuantisedRows& rows, const std::byte* stored) {
    return load_value(rows.weight, stored);
}

template <const float& kHalf>
void decode_integer(const Lanes& lanes, const std::uint8_t* codes, float* values, std::size_t n) {
    lanes.of_integer(codes, kHalf, values, n);
}

}  // namespace

const Coder& integer_coder(Encoding encoding) {
    static constexpr Coder kEight{store_integer_scale<kHalf8>, encode_integer<kHalf8>, integer_step,
                                  decode_integer<kHalf8>, kHalf8 - 1};
    static constexpr Coder kFour{store_integer_scale<kHalf4>, encode_integer<kHalf4>, integer_step,
                                 decode_integer<kHalf4>, kHalf4 - 1};
    return facts_of(encoding).code_bits == 4 ? kFour : kEight;
}

}  // namespace shardweld::numeric
