// FP8 by blocks as DeepSeek's models have it: E4M3FN codes and the factors of their inverses, bit
// for bit those of Fp8Quantize in transformers 5.23 (finegrained_fp8.py).
#include <algorithm>
#include <array>

#include <nlohmann/json.hpp>

#include "numeric/coder.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

constexpr Index kBlockEdge = 128;
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

void encode_e4m3_product(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                         std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e4m3_of_product(values.data(), operand, codes, values.size());
}

float f32_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return load_value(DType::f32, stored);
}

/// transformers reads the first list, and the second only where the first is missing; vLLM the
/// second.
std::string block_config(const EncodingFacts& facts, const std::vector<std::string>& kept) {
    nlohmann::ordered_json config = {{"quant_method", "fp8"},
                                     {"fmt", "e4m3"},
                                     {"activation_scheme", "dynamic"},
                                     {"weight_block_size", {kBlockEdge, kBlockEdge}}};
    if (facts.scales == DType::f8_e8m0) {
        config["scale_fmt"] = "ue8m0";
    }
    config["modules_to_not_convert"] = kept;
    config["ignored_layers"] = kept;
    return config.dump();
}

constexpr Coder kBlockCoder{store_block_scale, encode_e4m3_product, f32_step, decode_e4m3,
                            kLargestE4m3};
constexpr Coder kPowerCoder{store_e8m0_scale, encode_e4m3_product, power_step, decode_e4m3,
                            kLargestE4m3};

constexpr EncodingFacts by_block(std::string_view name, DType scales, const Coder& coder) {
    return {.name = name,
            .tile_rows = kBlockEdge,
            .tile_columns = kBlockEdge,
            .takes_part_rows = false,
            .codes = DType::f8_e4m3,
            .scales = scales,
            .scales_ending = "_scale_inv",
            .config = block_config,
            .coder = &coder};
}

constexpr std::array kBlockRows = {by_block("fp8-block", DType::f32, kBlockCoder),
                                   by_block("fp8-block-ue8m0", DType::f8_e8m0, kPowerCoder)};

}  // namespace

const std::span<const EncodingFacts> encodings::fp8_block{kBlockRows};

}  // namespace shardweld::numeric
