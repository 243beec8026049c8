// gpt-oss' MXFP4: blocks and scales of 32 values by columns of the stored experts, bit for bit
// those of triton_kernels' downcast_to_mxfp; names and settings are those of transformers 5.23
// (mxfp4.py).
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "numeric/coder.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

/// 2^ceil(log2(largest / 6)): never clips.
float store_gptoss_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const auto bits = std::bit_cast<std::uint32_t>(largest / kLargestE2m1);
    const std::uint32_t byte = (bits + 0x7FFFFFU) >> 23U;
    *stored = static_cast<std::byte>(byte);
    return byte == 0 ? 0.0F : std::ldexp(1.0F, 127 - static_cast<int>(byte));
}

void encode_gptoss(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                   std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_product(values.data(), operand, codes, values.size());
}

/// Experts alone are encoded: the rest has no encoding at all.
std::string gptoss_config(const EncodingFacts& /*facts*/,
                          const std::vector<std::string>& /*kept*/) {
    return nlohmann::ordered_json{{"quant_method", "mxfp4"},
                                  {"modules_to_not_convert",
                                   {"model.layers.*.self_attn", "model.layers.*.mlp.router",
                                    "model.embed_tokens", "lm_head"}}}
        .dump();
}

constexpr Coder kGptossCoder{store_gptoss_scale, encode_gptoss, power_step, decode_e2m1,
                             kLargestE2m1};

constexpr std::array kGptossRows = {EncodingFacts{.name = "gptoss-mxfp4",
                                                  .tile_columns = 32,
                                                  .code_bits = 4,
                                                  .scales = DType::u8,
                                                  .codes_ending = "_blocks",
                                                  .scales_ending = "_scales",
                                                  .by_columns = true,
                                                  .config = gptoss_config,
                                                  .coder = &kGptossCoder}};

}  // namespace

const std::span<const EncodingFacts> encodings::gptoss{kGptossRows};

}  // namespace shardweld::numeric
