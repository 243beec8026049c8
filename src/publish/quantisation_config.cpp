#include "quantisation_config.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace shardweld::publish {

namespace {

using nlohmann::ordered_json;

/// Readers expect the head to be named even where it is the embedding.
std::vector<std::string> with_head(std::vector<std::string> kept) {
    const auto is_head = [](const std::string& name) {
        return name == "lm_head" || name.ends_with(".lm_head");
    };
    if (std::ranges::none_of(kept, is_head)) {
        kept.insert(kept.begin(), "lm_head");
    }
    return kept;
}

/// transformers reads the first list, and the second only where the first is missing; vLLM the
/// second.
ordered_json block_fp8(Encoding encoding, const std::vector<std::string>& kept) {
    ordered_json config = {{"quant_method", "fp8"},
                           {"fmt", "e4m3"},
                           {"activation_scheme", "dynamic"},
                           {"weight_block_size", {128, 128}}};
    if (encoding == Encoding::fp8_block_ue8m0) {
        config["scale_fmt"] = "ue8m0";
    }
    config["modules_to_not_convert"] = kept;
    config["ignored_layers"] = kept;
    return config;
}

/// gpt-oss encodes experts alone: the rest has no encoding at all.
ordered_json gptoss() {
    return {{"quant_method", "mxfp4"},
            {"modules_to_not_convert",
             {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
              "lm_head"}}};
}

ordered_json weights_of(Encoding encoding) {
    const EncodingFacts& facts = facts_of(encoding);
    const bool is_integer = facts.codes == DType::i32;
    ordered_json weights = {{"num_bits", facts.code_bits},
                            {"type", is_integer ? "int" : "float"},
                            {"symmetric", true},
                            {"dynamic", false}};
    const bool is_block = facts.tile_rows > 1;
    weights["strategy"] = facts.has_global          ? "tensor_group"
                          : is_block                ? "block"
                          : facts.tile_columns == 0 ? "channel"
                                                    : "group";
    if (is_block) {
        weights["block_structure"] = {facts.tile_rows, facts.tile_columns};
        weights["group_size"] = nullptr;
    } else if (facts.tile_columns == 0) {
        weights["group_size"] = nullptr;
    } else {
        weights["group_size"] = facts.tile_columns;
    }
    if (facts.scales) {
        weights["scale_dtype"] = "torch." + std::string(torch_name(*facts.scales));
    }
    return weights;
}

/// FP8 multiplies in FP8; all others read weights only.
ordered_json activations_of(Encoding encoding) {
    const bool is_block = encoding == Encoding::fp8_block_ct;
    if (!is_block && encoding != Encoding::fp8_channel) {
        return nullptr;
    }
    ordered_json activations = {{"num_bits", 8},
                                {"type", "float"},
                                {"symmetric", true},
                                {"dynamic", true},
                                {"strategy", is_block ? "group" : "token"}};
    activations["group_size"] = is_block ? ordered_json(128) : ordered_json();
    return activations;
}

std::string format_of(Encoding encoding) {
    const EncodingFacts& facts = facts_of(encoding);
    return facts.codes == DType::f8_e4m3 ? "float-quantized"
           : facts.codes == DType::i32   ? "pack-quantized"
           : facts.has_global            ? "nvfp4-pack-quantized"
                                         : "mxfp4-pack-quantized";
}

/// Without quantization_status the values are read as if they were no codes; compressed-tensors
/// gives no error.
ordered_json compressed_tensors(Encoding encoding, const std::vector<std::string>& kept) {
    const std::string format = format_of(encoding);
    ordered_json group = {{"targets", {"Linear"}}};
    group["weights"] = weights_of(encoding);
    group["input_activations"] = activations_of(encoding);
    group["output_activations"] = nullptr;
    group["format"] = format;
    ordered_json config = {{"quant_method", "compressed-tensors"},
                           {"format", format},
                           {"quantization_status", "compressed"},
                           {"ignore", kept}};
    config["config_groups"]["group_0"] = std::move(group);
    return config;
}

}  // namespace

std::string quantisation_config(Encoding encoding, const std::vector<std::string>& kept) {
    const std::vector<std::string> all = with_head(kept);
    if (encoding == Encoding::gptoss_mxfp4) {
        return gptoss().dump();
    }
    return (facts_of(encoding).is_compressed_tensors ? compressed_tensors(encoding, all)
                                                     : block_fp8(encoding, all))
        .dump();
}

}  // namespace shardweld::publish
