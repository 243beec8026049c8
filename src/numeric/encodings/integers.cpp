// Integers of 8 and 4 bits, symmetric and packed in i32, bit for bit those of compressed-tensors
// 0.20 (quant_scheme.py, quantization/utils and compressors/pack_quantized): scales of the weight's
// type, quotients in fp32, as its GPU kernels divide.
#include <array>

#include "numeric/coder.hpp"

#include "registry.hpp"

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
void encode_integer(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                    std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.integer_of_quotient(values.data(), operand, kHalf, codes, values.size());
}

template <const float& kHalf>
void decode_integer(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                    std::size_t n) {
    kernels.of_integer(codes, kHalf, values, n);
}

template <const float& kHalf>
constexpr Coder kIntegerCoder{store_integer_scale<kHalf>, encode_integer<kHalf>, weight_step,
                              decode_integer<kHalf>, kHalf - 1};

/// A scale for `columns` of a row, 0: for all.
constexpr EncodingFacts integers(std::string_view name, std::string_view alias, Index columns,
                                 Index bits) {
    return {.name = name,
            .alias = alias,
            .tile_columns = columns,
            .codes = DType::i32,
            .code_bits = bits,
            .codes_ending = "_packed",
            .scales_ending = "_scale",
            .has_shape = true,
            .format = "pack-quantized",
            .coder = bits == 4 ? &kIntegerCoder<kHalf4> : &kIntegerCoder<kHalf8>};
}

constexpr std::array kIntegerRows = {
    integers("w8a16", "W8A16", 128, 8), integers("w8a16-g64", "", 64, 8),
    integers("w8a16-g32", "", 32, 8),   integers("w8a16-channel", "", 0, 8),
    integers("w4a16", "W4A16", 128, 4), integers("w4a16-g64", "", 64, 4),
    integers("w4a16-g32", "", 32, 4),   integers("w4a16-channel", "", 0, 4),
};

}  // namespace

const std::span<const EncodingFacts> encodings::integers{kIntegerRows};

}  // namespace shardweld::numeric
