// FP8 by rows and by blocks, bit for bit that of compressed-tensors 0.20 (quant_scheme.py,
// quantization/utils/helpers.py): E4M3FN codes, scales of the weight's type, quotients in fp32.
#include <array>

#include "numeric/coder.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

float store_e4m3_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    return store_scale(rows, largest, kLargestE4m3, stored);
}

void encode_e4m3_quotient(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                          std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e4m3_of_quotient(values.data(), operand, codes, values.size());
}

constexpr Coder kCompressedCoder{store_e4m3_scale, encode_e4m3_quotient, weight_step, decode_e4m3,
                                 kLargestE4m3};

constexpr EncodingFacts compressed(std::string_view name, std::string_view alias, Index tile_rows,
                                   Index tile_columns) {
    return {.name = name,
            .alias = alias,
            .tile_rows = tile_rows,
            .tile_columns = tile_columns,
            .codes = DType::f8_e4m3,
            .scales_ending = "_scale",
            .format = "float-quantized",
            .coder = &kCompressedCoder};
}

constexpr std::array kCompressedRows = {compressed("fp8-channel", "FP8_DYNAMIC", 1, 0),
                                        compressed("fp8-block-ct", "FP8_BLOCK", 128, 128)};

}  // namespace

const std::span<const EncodingFacts> encodings::fp8_compressed{kCompressedRows};

}  // namespace shardweld::numeric
