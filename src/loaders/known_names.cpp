#include "known_names.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <sstream>
#include <string>

#include "core/json.hpp"

namespace shardweld::loaders {

namespace {

using Words = std::set<std::string, std::less<>>;

/// "qwen3_moe" and "Qwen3Moe" as "qwen3moe".
std::string plain(std::string_view word) {
    std::string letters;
    for (const char letter : word) {
        if (std::isalnum(static_cast<unsigned char>(letter)) != 0) {
            letters += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        }
    }
    return letters;
}

Words words_of(std::string_view list, bool is_plain = false) {
    std::istringstream stream{std::string(list)};
    Words words;
    for (std::string word; stream >> word;) {
        words.insert(is_plain ? plain(word) : word);
    }
    return words;
}

/// "Qwen3MoeForCausalLM" as "Qwen3Moe".
std::string_view without_head(std::string_view name) {
    for (std::size_t at = name.find("For"); at != std::string_view::npos;
         at = name.find("For", at + 1)) {
        if (at + 3 < name.size() && std::isupper(static_cast<unsigned char>(name[at + 3])) != 0) {
            return name.substr(0, at);
        }
    }
    for (const std::string_view head : {"LMHeadModel", "DoubleHeadsModel", "ChatModel", "Model"}) {
        if (name.ends_with(head)) {
            return name.substr(0, name.size() - head.size());
        }
    }
    return name;
}

const Words& transformers_types() {
    static const Words words = words_of(kTransformersTypes);
    return words;
}

bool is_transformers_class(std::string_view name) {
    static const Words types = words_of(kTransformersTypes, true);
    static const Words classes = words_of(kTransformersClasses);
    return classes.contains(name) || types.contains(plain(without_head(name)));
}

/// "" for a field that no type is known to refuse null for.
std::string letter_of_null(std::string_view field) {
    std::istringstream stream{std::string(kNullFields)};
    std::string letter;
    for (std::string name; stream >> letter >> name;) {
        if (name == field) {
            return letter;
        }
    }
    return "";
}

}  // namespace

bool is_one_of(std::string_view list, std::string_view word) {
    return word.find(' ') == std::string_view::npos &&
           (" " + std::string(list) + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

std::map<std::string, std::string, std::less<>> keys_of_words(std::string_view list) {
    std::map<std::string, std::string, std::less<>> keys;
    std::istringstream stream{std::string(list)};
    std::string key;
    for (std::string word; stream >> word;) {
        if (word.ends_with(':')) {
            key = word.substr(0, word.size() - 1);
        } else {
            keys[word] = key;
        }
    }
    return keys;
}

bool refuses_null(std::string_view type, std::string_view field) {
    static const auto refusals = keys_of_words(kNullRefusals);  // letters of fields
    const auto found = refusals.find(type);
    const std::string letter = letter_of_null(field);
    return found != refusals.end() && !letter.empty() &&
           found->second.find(letter) != std::string::npos;
}

bool knows_type(Loader loader, std::string_view type) {
    static const Words vllm = words_of(kVllmTypes);
    static const Words sglang = words_of(kSglangTypes);
    return transformers_types().contains(type) || (loader == Loader::vllm && vllm.contains(type)) ||
           (loader == Loader::sglang && sglang.contains(type));
}

bool knows_class(Loader loader, std::string_view name) {
    static const Words vllm = words_of(kVllmClasses);
    static const Words sglang = words_of(kSglangClasses);
    static const Words gguf = words_of(kGgufArchitectures);
    if (loader == Loader::llama_cpp) {
        return gguf.contains(name);
    }
    return is_transformers_class(name) || (loader == Loader::vllm && vllm.contains(name)) ||
           (loader == Loader::sglang && sglang.contains(name));
}

namespace {

using nlohmann::json;

/// Letters of kinds, as in kind_of, and the fields that take no other in any configuration: those
/// of twenty or more.
constexpr std::string_view kFields = R"(
b: mlp_bias
bln: qkv_bias
bn: add_cross_attention attention_bias is_decoder is_encoder_decoder norm_topk_prob
output_hidden_states output_router_logits return_dict scale_embedding tie_word_embeddings
use_cache
diln: image_size
dn: id2label label2id
f: norm_eps
fi: layerdrop
fil: drop_path_rate mlp_ratio
fin: activation_dropout attention_dropout attention_probs_dropout_prob classifier_dropout
decoder_layerdrop dropout encoder_layerdrop hidden_dropout hidden_dropout_prob
initializer_factor routed_scaling_factor
fn: init_std initializer_range layer_norm_eps layer_norm_epsilon rms_norm_eps
router_aux_loss_coef
i: chunk_size_feed_forward max_position_embeddings num_layers num_mel_bins num_queries
out_hidden_size spatial_merge_size type_vocab_size window_size
il: depth in_channels num_heads
iln: conv_kernel_size eos_token_id intermediate_size moe_intermediate_size num_attention_heads
patch_size
in: audio_token_id bos_token_id d_model decoder_attention_heads decoder_ffn_dim decoder_layers
decoder_start_token_id encoder_attention_heads encoder_ffn_dim encoder_layers head_dim
hidden_size image_token_id image_token_index n_group n_routed_experts n_shared_experts
num_channels num_experts num_experts_per_tok num_hidden_layers num_key_value_heads pad_token_id
pretraining_tp projection_dim sliding_window topk_group v_head_dim video_token_id vocab_size
ln: architectures depths layer_types mlp_layer_types
ns: activation_function problem_type transformers_version
s: hidden_act projector_hidden_act
)";

const std::map<std::string, std::string, std::less<>>& kinds_of_fields() {
    static const auto all = keys_of_words(kFields);
    return all;
}

/// NaN and infinities are read as texts here, and written as objects by transformers.
char kind_of(const json& value) {
    const bool is_nonfinite =
        (value.is_string() && nonfinite_value(value.get_ref<const std::string&>()) != 0) ||
        (value.is_object() && value.contains("__float__"));
    switch (is_nonfinite ? json::value_t::number_float : value.type()) {
        case json::value_t::null:
            return 'n';
        case json::value_t::boolean:
            return 'b';
        case json::value_t::number_integer:
        case json::value_t::number_unsigned:
            return 'i';
        case json::value_t::number_float:
            return 'f';
        case json::value_t::string:
            return 's';
        case json::value_t::array:
            return 'l';
        default:
            return 'd';
    }
}

std::string text_of(const std::string& kinds) {
    constexpr std::array<std::pair<char, std::string_view>, 7> kTexts = {
        {{'b', "true or false"},
         {'i', "a whole number"},
         {'f', "a number with a point"},
         {'s', "a text"},
         {'l', "a list"},
         {'d', "an object"},
         {'n', "null"}}};
    std::string text;
    for (const auto& [kind, name] : kTexts) {
        if (kinds.find(kind) != std::string::npos) {
            text += (text.empty() ? "" : ", or ") + std::string(name);
        }
    }
    return text;
}

}  // namespace

std::string taken_instead(std::string_view type, std::string_view field, const json& value) {
    const auto found = kinds_of_fields().find(field);
    if (found == kinds_of_fields().end()) {
        return "";
    }
    std::string kinds = found->second;
    if (value.is_null() && refuses_null(type, field)) {
        std::erase(kinds, 'n');
    }
    const bool is_of_tokens = field.ends_with("_token_id") && value.is_array();
    const bool is_taken = kinds.find(kind_of(value)) != std::string::npos &&
                          (!is_of_tokens || std::ranges::all_of(value, [](const json& one) {
                              return one.is_number_integer();
                          }));
    return is_taken ? "" : text_of(kinds);
}

bool is_computed_with(std::string_view field) {
    return is_one_of(
        "adapter_layer_norm_eps attention_in_multiplier attention_multiplier "
        "attention_out_multiplier "
        "attention_value_scale attn_logit_softcapping attn_scale embedding_multiplier "
        "embedding_scale "
        "eps feature_layer_norm_eps final_logit_softcapping full_attn_alpha_factor "
        "full_attn_beta_factor global_rope_theta hc_eps key_multiplier layer_norm_eps "
        "layer_norm_epsilon linear_attn_alpha_factor linear_attn_beta_factor lm_head_multiplier "
        "local_rope_theta logit_scale logits_scaling logits_soft_cap mixer_rms_eps "
        "mlp_alpha_factor "
        "mlp_beta_factor mlp_multipliers moe_routed_scaling_factor moe_router_scaling_factor "
        "norm_eps "
        "norm_epsilon output_multiplier partial_rotary_factor projector_layernorm_eps "
        "query_pre_attn_scalar residual_multiplier residual_scale rms_norm_eps "
        "rope_local_base_freq "
        "rope_parameters rope_scaling rope_theta rotary_emb_base rotary_pct route_scale "
        "routed_scaling_factor router_scaling_factor scale_depth scale_emb ssm_in_multiplier "
        "ssm_multipliers ssm_out_multiplier swiglu_alpha",
        field);
}

bool is_dtype(std::string_view name) {
    constexpr std::string_view kPrefix = "torch.";
    return is_one_of(
        "bfloat16 bool complex64 complex128 double float float16 float32 float64 "
        "float8_e4m3fn "
        "float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu half int int16 int32 int64 "
        "int8 long short uint16 uint32 uint64 uint8",
        name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name);
}

bool is_activation(std::string_view name) {
    return is_one_of(
        "gelu gelu_10 gelu_accurate gelu_fast gelu_new gelu_python gelu_python_tanh "
        "gelu_pytorch_tanh hardswish laplace leaky_relu linear mish prelu quick_gelu relu relu2 "
        "relu6 sigmoid silu sqrtsoftplus swish tanh xielu",
        name);
}

}  // namespace shardweld::loaders
