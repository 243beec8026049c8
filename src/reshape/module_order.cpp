#include "module_order.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "core/text.hpp"

namespace shardweld::reshape {

namespace {

/// Children of a module, by its name, in the order in which classes of transformers 5.24 make them:
/// compared with named_parameters() of the families below.
struct Children {
    std::string_view module;
    std::string_view order;
};
constexpr std::array kChildren = std::to_array<Children>({
    {"", "gpt_neox model lm_head score"},
    {"attention",
     "in_proj_weight in_proj_bias k_proj out_proj query_key_value dense v_proj q_proj o_proj"},
    {"attn", "c_attn c_proj q k qkv v proj"},
    {"attn_hc", "fn base scale"},
    {"block_sparse_moe", "router experts"},
    {"blocks", "norm1 norm2 attn mlp"},
    {"c_attn", "weight bias"},
    {"c_fc", "weight bias"},
    {"c_proj", "weight bias"},
    {"compressor", "position_bias kv_proj gate_proj kv_norm indexer"},
    {"conv1d", "weight bias"},
    {"deepstack_merger_list", "norm linear_fc1 linear_fc2"},
    {"dense", "weight bias"},
    {"dense_4h_to_h", "weight bias"},
    {"dense_h_to_4h", "weight bias"},
    {"down_proj", "weight bias"},
    {"downsample", "weight bias"},
    {"experts", "gate_up_proj gate_up_proj_bias down_proj down_proj_bias"},
    {"fc1", "weight bias"},
    {"fc2", "weight bias"},
    {"feed_forward", "experts gate_proj router shared_expert up_proj down_proj"},
    {"ffn_hc", "fn base scale"},
    {"final_layer_norm", "weight bias"},
    {"final_layernorm", "weight bias"},
    {"gate", "weight moe_statics"},
    {"gate_proj", "weight bias"},
    {"gpt_neox", "embed_in layers final_layer_norm"},
    {"h", "ln_1 attn ln_2 mlp"},
    {"hc_head", "hc_fn hc_base hc_scale"},
    {"indexer",
     "position_bias kv_proj gate_proj kv_norm q_b_proj q_proj k_proj q_norm scorer wq_b wk k_norm "
     "weights_proj"},
    {"input_layernorm", "weight bias"},
    {"k_norm", "weight bias"},
    {"k_proj", "weight bias"},
    {"language_model",
     "embed_tokens layers norm embed_tokens_per_layer per_layer_model_projection "
     "per_layer_projection_norm"},
    {"layers",
     "attention_norm feed_forward lambda_1 lambda_2 layer_norm1 linear_attn mamba norm mixer "
     "self_attn layer_norm2 self_attn_layer_norm fc1 fc2 final_layer_norm ffn_norm mlp "
     "input_layernorm layernorm_before layernorm_after post_attention_layernorm attention attn_hc "
     "block_sparse_moe ffn_hc post_self_attn_layernorm post_mlp_layernorm "
     "pre_feedforward_layernorm post_feedforward_layernorm per_layer_input_gate "
     "per_layer_projection post_per_layer_input_norm pre_ff_layernorm router experts "
     "post_feedforward_layernorm_1 post_feedforward_layernorm_2 pre_feedforward_layernorm_2"},
    {"linear_attn",
     "dt_bias A_log conv1d in_proj_qkvz in_proj_ba norm out_proj in_proj_qkv in_proj_z in_proj_b "
     "in_proj_a"},
    {"linear_fc1", "weight bias"},
    {"linear_fc2", "weight bias"},
    {"lm_head", "weight bias"},
    {"ln", "weight bias"},
    {"ln_1", "weight bias"},
    {"ln_2", "weight bias"},
    {"ln_f", "weight bias"},
    {"mamba", "dt_bias A_log D conv1d in_proj norm out_proj"},
    {"merger",
     "ln_q mlp norm linear_fc1 linear_fc2 proj post_projection_norm gate_proj up_proj down_proj"},
    {"mixer",
     "dt_bias A_log D conv1d in_proj norm out_proj q_proj k_proj up_proj down_proj v_proj o_proj"},
    {"mlp",
     "c_fc c_proj dense_h_to_4h dense_4h_to_h fc1 fc2 gate_proj gate_up_proj linear_fc1 linear_fc2 "
     "router experts gate shared_expert shared_expert_gate shared_mlp text_moe up_proj down_proj "
     "vision_moe shared_experts weight bias"},
    {"model",
     "audio_tower embed_tokens embeddings layers final_layernorm norm hc_head norm_f vision_model "
     "vision_tower multi_modal_projector visual language_model embed_vision resampler_model"},
    {"norm", "weight bias"},
    {"norm1", "weight bias"},
    {"norm2", "weight bias"},
    {"o_proj", "weight bias"},
    {"post_attention_layernorm", "weight bias"},
    {"post_projection_norm", "weight bias"},
    {"proj", "weight bias"},
    {"q_proj", "weight bias"},
    {"qkv", "weight bias"},
    {"query_key_value", "weight bias"},
    {"resampler_model", "spatial_linear temporal_linear mlp after_norm"},
    {"router", "scale per_expert_scale proj weight bias"},
    {"score", "weight bias"},
    {"self_attn",
     "sinks q_a_proj q_a_layernorm q_a_norm q_b_proj kv_a_proj_with_mqa kv_a_layernorm kv_b_proj "
     "kv_proj kv_norm o_a_proj o_b_proj compressor q_proj k_proj v_proj dense o_proj out_proj "
     "q_norm k_norm g_proj indexer qkv_proj query_layernorm key_layernorm"},
    {"shared_expert", "gate_proj up_proj down_proj"},
    {"shared_experts", "gate_proj gate_up_proj up_proj down_proj"},
    {"shared_mlp", "gate_proj up_proj down_proj"},
    {"text_moe", "gate experts"},
    {"transformer", "wte wpe h ln_f"},
    {"up_proj", "weight bias"},
    {"v_proj", "weight bias"},
    {"vision_moe", "gate experts"},
    {"vision_tower",
     "embeddings patch_conv ln_pre patch_embed blocks ln patch_embedder encoder post_layernorm "
     "head pre_layrnorm layers transformer"},
    {"visual",
     "embeddings patch_embed pos_embed blocks merger deepstack_merger_list post_conv_layernorm "
     "downsample post_layernorm"},
});

/// The children of a module in a family that has others, or has them in another order.
struct ChildrenOfFamily {
    std::string_view family;
    Children children;
};
constexpr std::array kOfFamilies = std::to_array<ChildrenOfFamily>({
    {"mixtral", {"mlp", "gate experts"}},
    {"deepseek_v4", {"mlp", "gate experts shared_experts"}},
    {"ernie4_5_vl_moe", {"model", "language_model vision_tower resampler_model"}},
    {"exaone4_5", {"attn", "proj qkv"}},
    {"gemma4_text", {"self_attn", "q_proj q_norm k_norm k_proj v_proj o_proj"}},
    {"gpt_neox", {"layers", "input_layernorm post_attention_layernorm attention mlp"}},
    {"hunyuan_v1_moe", {"mlp", "gate experts shared_mlp"}},
    {"llama4_text", {"layers", "self_attn feed_forward input_layernorm post_attention_layernorm"}},
    {"minimax_m2", {"mlp", "gate experts"}},
    {"olmoe", {"mlp", "gate experts"}},
    {"qwen3_next", {"mlp", "gate experts shared_expert shared_expert_gate"}},
    {"qwen2_moe", {"mlp", "gate experts shared_expert shared_expert_gate"}},
});

constexpr std::array kFamilies = std::to_array<std::string_view>({"deepseek_v3",
                                                                  "deepseek_v32",
                                                                  "deepseek_v4",
                                                                  "ernie4_5_vl_moe",
                                                                  "exaone4",
                                                                  "exaone4_5",
                                                                  "exaone_moe",
                                                                  "falcon_h1",
                                                                  "gemma",
                                                                  "gemma2",
                                                                  "gemma3_text",
                                                                  "gemma4_text",
                                                                  "glm",
                                                                  "glm4",
                                                                  "glm4_moe",
                                                                  "glm4_moe_lite",
                                                                  "glm4v",
                                                                  "glm4v_moe",
                                                                  "gpt2",
                                                                  "gpt_neox",
                                                                  "gpt_oss",
                                                                  "granite",
                                                                  "granitemoe",
                                                                  "hunyuan_v1_dense",
                                                                  "hunyuan_v1_moe",
                                                                  "llama",
                                                                  "llama4_text",
                                                                  "mimo_v2_flash",
                                                                  "minimax_m2",
                                                                  "mixtral",
                                                                  "nemotron",
                                                                  "nemotron_h",
                                                                  "olmo2",
                                                                  "olmoe",
                                                                  "phi",
                                                                  "phi3",
                                                                  "phimoe",
                                                                  "qwen2",
                                                                  "qwen2_moe",
                                                                  "qwen2_vl",
                                                                  "qwen3",
                                                                  "qwen3_5",
                                                                  "qwen3_5_vl",
                                                                  "qwen3_moe",
                                                                  "qwen3_next",
                                                                  "qwen3_vl",
                                                                  "qwen3_vl_moe",
                                                                  "seed_oss",
                                                                  "smollm3",
                                                                  "starcoder2"});

/// The place of a name among words.
std::size_t place_in(std::string_view words, std::string_view name) {
    std::size_t place = 0;
    for (std::size_t at = 0; at < words.size(); ++place) {
        const std::size_t end = std::min(words.find(' ', at), words.size());
        if (words.substr(at, end - at) == name) {
            break;
        }
        at = end + 1;
    }
    return place;
}

std::string_view take_component(std::string_view& name) {
    const std::size_t dot = name.find('.');
    const std::string_view first = name.substr(0, dot);
    name.remove_prefix(dot == std::string_view::npos ? name.size() : dot + 1);
    return first;
}

}  // namespace

bool ModuleOrder::is_known() const {
    return std::ranges::find(kFamilies, family_) != kFamilies.end();
}

std::string_view ModuleOrder::children_of(std::string_view module) const {
    for (const ChildrenOfFamily& one : kOfFamilies) {
        if (one.family == family_ && one.children.module == module) {
            return one.children.order;
        }
    }
    const auto found = std::ranges::find(kChildren, module, &Children::module);
    return found == kChildren.end() ? std::string_view() : found->order;
}

bool ModuleOrder::operator()(std::string_view a, std::string_view b) const {
    std::string_view module;
    while (!a.empty() && !b.empty()) {
        const std::string_view first = take_component(a);
        const std::string_view second = take_component(b);
        if (first != second) {
            const std::string_view order = children_of(module);
            const std::size_t i = place_in(order, first);
            const std::size_t j = place_in(order, second);
            return i == j ? natural_less(first, second) : i < j;
        }
        module = parse_index(first) ? module : first;
    }
    return a.empty() && !b.empty();
}

}  // namespace shardweld::reshape
