#include "peft_names.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/text.hpp"

namespace shardweld::adapters {

namespace {

using NameParts = std::vector<std::string_view>;

constexpr std::string_view kBaseLayer = "base_layer";

constexpr std::array<std::string_view, 5> kFactors{"lora_A", "lora_B", "lora_embedding_A",
                                                   "lora_embedding_B", "lora_magnitude_vector"};
/// How components of PEFT's other methods and of LoRA's rarer forms begin (peft 0.21, `prefix` and
/// `adapter_layer_names` of tuners).
constexpr std::array<std::string_view, 33> kForeign{"lora_E",
                                                    "ranknum",
                                                    "lora_ga_",
                                                    "lora_router",
                                                    "ia3_l",
                                                    "hada_",
                                                    "lokr_",
                                                    "oft_r",
                                                    "oft_R",
                                                    "boft_",
                                                    "vera_lambda",
                                                    "vera_A",
                                                    "vera_B",
                                                    "vblora_",
                                                    "randlora_",
                                                    "token_adapter",
                                                    "trainable_tokens_",
                                                    "prompt_encoder",
                                                    "adaption_",
                                                    "fourierft_",
                                                    "waveft_",
                                                    "hra_u",
                                                    "bone_block",
                                                    "miss_block",
                                                    "c3a_kernel",
                                                    "shira_weight",
                                                    "road_theta",
                                                    "road_alpha",
                                                    "ln_tuning_layers",
                                                    "gralora_",
                                                    "delora_",
                                                    "osf_",
                                                    "xlora_"};

bool is_foreign(std::string_view part) {
    return std::any_of(kForeign.begin(), kForeign.end(),
                       [&](std::string_view known) { return part.starts_with(known); });
}

template <typename List>
bool holds(const List& list, std::string_view part) {
    return std::find(list.begin(), list.end(), part) != list.end();
}

std::string join(const NameParts& parts, std::size_t begin, std::size_t end) {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
        text += text.empty() ? "" : ".";
        text += parts[i];
    }
    return text;
}

/// The text without its parts [begin, end).
std::string without(const NameParts& parts, std::size_t begin, std::size_t end) {
    const std::string head = join(parts, 0, begin);
    const std::string tail = join(parts, end, parts.size());
    return head.empty() || tail.empty() ? head + tail : head + "." + tail;
}

/// "X.lora_A.NAME.weight", "X.lora_embedding_A.NAME", "X.lora_magnitude_vector.NAME[.weight]"; the
/// same without NAME is what a saved adapter holds.
PeftName factor_name(const NameParts& parts, std::size_t at, Index depth) {
    PeftName name;
    name.role = TensorRole::factor;
    name.module_name = join(parts, 0, at);
    std::size_t rest = at + 1;
    const bool is_named =
        rest < parts.size() &&
        !(rest + 1 == parts.size() && (parts[rest] == "weight" || parts[rest] == "bias"));
    if (is_named) {
        name.adapter_name = parts[rest++];
    }
    name.component = parts[at];
    const bool has_end = rest < parts.size() && parts[at] != "lora_magnitude_vector";
    const std::string end = has_end ? "." + join(parts, rest, parts.size()) : "";
    name.component += end == ".weight" ? "" : end;
    name.saved_name = kPrefix + name.module_name;
    for (Index i = 0; i < depth; ++i) {
        name.saved_name += "." + std::string(kBaseLayer);
    }
    name.saved_name += "." + std::string(parts[at]) + end;
    name.depth = depth;
    return name;
}

}  // namespace

PeftName read_name(const std::string& stored) {
    const std::string_view prefix = kPrefix;
    const std::string bare = stored.starts_with(prefix) ? stored.substr(prefix.size()) : stored;
    NameParts parts = split(bare, '.');
    PeftName name;
    name.saved_name = kPrefix + bare;
    Index depth = 0;
    std::size_t at_wrapper = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool is_inner = i > 0 && i + 1 < parts.size();
        const bool is_base_layer = is_inner && parts[i] == kBaseLayer;
        if (parts[i] == "token_adapter" && is_inner && parts[i + 1] == kBaseLayer) {
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i--));
        } else if (is_foreign(parts[i])) {
            name.role = TensorRole::foreign;
            break;
        } else if (holds(kFactors, parts[i])) {
            const bool is_odd = name.role == TensorRole::original || (depth > 0 && at_wrapper != i);
            name = factor_name(parts, i, depth);
            name.role = is_odd ? TensorRole::foreign : TensorRole::factor;
            return name;
        } else if (is_base_layer || (is_inner && parts[i] == "original_module")) {
            const TensorRole role = is_base_layer ? TensorRole::wrapped : TensorRole::original;
            if (name.role != TensorRole::base && name.role != role) {
                name.role = TensorRole::foreign;
                break;
            }
            name.role = role;
            depth += is_base_layer ? 1 : 0;
            at_wrapper = i;
            parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i--));
        } else if (is_inner && parts[i] == "modules_to_save" && i + 2 < parts.size()) {
            name.role = TensorRole::whole;
            name.whole_module = join(parts, 0, i);
            name.adapter_name = parts[i + 1];
            name.module_name = without(parts, i, i + 2);
            name.saved_name = kPrefix + name.module_name;
            return name;
        }
    }
    name.module_name = join(parts, 0, parts.size());
    return name;
}

}  // namespace shardweld::adapters
