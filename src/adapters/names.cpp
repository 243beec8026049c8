#include "names.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "shardweld/adapters/separate.hpp"
#include "shardweld/core/text.hpp"

namespace shardweld::adapters {

namespace {

using Parts = std::vector<std::string_view>;

constexpr std::array<std::string_view, 5> kFactors{"lora_A", "lora_B", "lora_embedding_A",
                                                   "lora_embedding_B", "lora_magnitude_vector"};
/// Components of PEFT's other methods and of LoRA's rarer forms.
constexpr std::array<std::string_view, 18> kForeign{"lora_E",
                                                    "ranknum",
                                                    "ia3_l",
                                                    "hada_w1_a",
                                                    "hada_w1_b",
                                                    "lokr_w1",
                                                    "lokr_w2",
                                                    "oft_r",
                                                    "oft_R",
                                                    "vera_lambda_b",
                                                    "vera_lambda_d",
                                                    "vera_A",
                                                    "token_adapter",
                                                    "boft_R",
                                                    "prompt_encoder",
                                                    "adaption_prompt",
                                                    "fourierft_spectrum",
                                                    "trainable_tokens_delta"};

template <typename List>
bool holds(const List& list, std::string_view part) {
    return std::find(list.begin(), list.end(), part) != list.end();
}

std::string join(const Parts& parts, std::size_t begin, std::size_t end) {
    std::string text;
    for (std::size_t i = begin; i < end; ++i) {
        text += text.empty() ? "" : ".";
        text += parts[i];
    }
    return text;
}

/// The text without its parts [begin, end).
std::string without(const Parts& parts, std::size_t begin, std::size_t end) {
    const std::string head = join(parts, 0, begin);
    const std::string tail = join(parts, end, parts.size());
    return head.empty() || tail.empty() ? head + tail : head + "." + tail;
}

/// "X.lora_A.NAME.weight", "X.lora_embedding_A.NAME", "X.lora_magnitude_vector.NAME[.weight]"; the
/// same without NAME is what a saved adapter holds.
PeftName factor_name(const Parts& parts, std::size_t at) {
    PeftName name;
    name.role = Role::factor;
    name.module_name = join(parts, 0, at);
    std::size_t rest = at + 1;
    const bool is_named =
        rest < parts.size() &&
        !(rest + 1 == parts.size() && (parts[rest] == "weight" || parts[rest] == "bias"));
    if (is_named) {
        name.adapter_name = parts[rest++];
    }
    name.saved_name = kPrefix + join(parts, 0, at + 1);
    if (rest < parts.size() && parts[at] != "lora_magnitude_vector") {
        name.saved_name += "." + join(parts, rest, parts.size());
    }
    return name;
}

}  // namespace

PeftName read_name(const std::string& stored) {
    const std::string_view prefix = kPrefix;
    const std::string bare = stored.starts_with(prefix) ? stored.substr(prefix.size()) : stored;
    const Parts parts = split(bare, '.');
    PeftName name;
    name.module_name = bare;
    name.saved_name = kPrefix + bare;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool is_inner = i > 0 && i + 1 < parts.size();
        if (holds(kForeign, parts[i])) {
            name.role = Role::foreign;
            return name;
        }
        if (holds(kFactors, parts[i])) {
            // A parameter that is wrapped on its own (target_parameters) nests LoRA's modules.
            const bool is_nested = name.role != Role::base;
            name = factor_name(parts, i);
            name.role = is_nested ? Role::foreign : Role::factor;
            return name;
        }
        if (is_inner && (parts[i] == "base_layer" || parts[i] == "original_module")) {
            if (name.role != Role::base) {
                name.role = Role::foreign;
                return name;
            }
            name.role = parts[i] == "base_layer" ? Role::wrapped : Role::original;
            name.module_name = without(parts, i, i + 1);
        } else if (is_inner && parts[i] == "modules_to_save" && i + 2 < parts.size()) {
            name.role = Role::whole;
            name.whole_module = join(parts, 0, i);
            name.adapter_name = parts[i + 1];
            name.module_name = without(parts, i, i + 2);
            name.saved_name = kPrefix + name.module_name;
            return name;
        }
    }
    return name;
}

}  // namespace shardweld::adapters
