#include "args.hpp"

#include <array>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "core/fingerprint.hpp"
#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "core/yaml.hpp"
#include "formats/shared/hints.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats::megatron {

namespace {

constexpr std::size_t kLongestText = 1024;

constexpr const char* kTrue = "true";
constexpr const char* kFalse = "false";
constexpr const char* kNothing = "None";

// A parallel size above this is not a size.
constexpr Index kLargestSize = 1 << 20;

// Lists in lists, for messages and comparisons.
constexpr int kDeepestList = 4;

constexpr std::array<std::pair<const char*, const char*>, 5> kSizeKeys = {{
    {"tp", "tensor_model_parallel_size"},
    {"pp", "pipeline_model_parallel_size"},
    {"vpp", "virtual_pipeline_model_parallel_size"},
    {"ep", "expert_model_parallel_size"},
    {"etp", "expert_tensor_parallel_size"},
}};

std::optional<std::string> scalar_text(const nlohmann::json& value) {
    if (value.is_boolean()) {
        return value.get<bool>() ? kTrue : kFalse;
    }
    if (value.is_number_float()) {
        return real_text(value.get<double>());
    }
    return value.is_string() ? plain_word(value.get_ref<const std::string&>())
                             : std::optional(value.dump().substr(0, kLongestText));
}

// The dict of an object's attributes: its BUILD state, or the first half of a (dict, slots) state.
const PickleValue* attributes_of(const PickleValue& args) {
    if (args.is_mapping()) {
        return &args;
    }
    const PickleValue* state = args.state();
    if (state != nullptr && !state->is_mapping() && !state->elements().empty()) {
        state = state->elements().front();
    }
    return state;
}

/// A scalar, a list of arguments, or the class of what is neither; "None" of what is nothing.
std::string argument_text(const PickleValue& value, const ScalarReader& scalars, int depth = 0) {
    if (const auto text = scalars.text_of(value)) {
        return *text;
    }
    const PickleValue& bare = unwrapped(value);
    if (bare.is_list()) {
        std::string text;
        for (const PickleValue* element : bare.elements()) {
            text += text.empty() ? "" : ", ";
            if (depth == kDeepestList || text.size() > kLongestText) {
                text += "...";
                break;
            }
            text += argument_text(*element, scalars, depth + 1);
        }
        return "[" + text + "]";
    }
    switch (bare.kind) {
        case PickleKind::none:
        case PickleKind::text:
            return kNothing;
        case PickleKind::object:
        case PickleKind::global:
            return std::string(bare.class_name());
        default:
            return std::string(name_of(bare.kind));
    }
}

/// Calls `take` with the name and the value of each argument.
template <typename Take>
void for_each_argument(const PickleValue& args, const Take& take) {
    if (const PickleValue* const attributes = attributes_of(unwrapped(args))) {
        for (const auto& [key, value] : attributes->pairs()) {
            if (key.kind == PickleKind::text && key.text().size() <= kLongestText) {
                take(std::string(key.text()), value);
            }
        }
    }
}

std::string value_or_none(const StatedConfig& claims, const std::string& key) {
    return copy_or(find_value(claims, key), "(none)");
}

}  // namespace

StatedConfig claims_of(const PickleValue& args, const ScalarReader& scalars) {
    StatedConfig claims;
    for_each_argument(args, [&](const std::string& key, const PickleValue& value) {
        std::string text = argument_text(value, scalars);
        if (text != kNothing) {
            claims[key] = std::move(text);
        }
    });
    return claims;
}

StatedConfig claims_of_json(const std::string& text) {
    const auto root = parse_json<nlohmann::json>(text);
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, "is not a JSON object");
    }
    StatedConfig claims;
    for (const auto& [key, value] : root.items()) {
        if (auto scalar = value.is_null() ? std::nullopt : scalar_text(value)) {
            claims[key] = std::move(*scalar);
        }
    }
    return claims;
}

StatedConfig claims_of_run_config(std::string_view text) {
    StatedConfig claims;
    for (const char* section : {"model", "config", "tokenizer"}) {
        for (const auto& [key, value] : yaml_section(text, section)) {
            if (auto word = plain_word(value)) {
                claims.emplace(key, std::move(*word));
            }
        }
    }
    return claims;
}

std::optional<Index> number_claim(const StatedConfig& claims, std::string_view key) {
    auto* const at = find_value(claims, std::string(key));
    return at == nullptr ? std::nullopt : parse_index(*at);
}

StatedConfig common_args(const PickleValue& args, const ScalarReader& scalars) {
    StatedConfig common;
    for_each_argument(args, [&](const std::string& key, const PickleValue& value) {
        if (!is_known_as(key, "argument of a rank")) {
            common[key] = argument_text(value, scalars);
        }
    });
    return common;
}

Index fingerprint_of(const StatedConfig& claims) {
    Fingerprint all;
    for (const auto& [key, value] : claims) {
        all.add(key);
        all.add(value);
    }
    return static_cast<Index>(all.value());
}

void require_agreement(const StatedConfig& a, const std::string& file_a, const StatedConfig& b,
                       const std::string& file_b) {
    StatedConfig keys = a;
    keys.insert(b.begin(), b.end());
    for (const auto& [key, value] : keys) {
        const std::string& value_a = value_or_none(a, key);
        const std::string& value_b = value_or_none(b, key);
        const bool is_comparable =
            (a.contains(key) && b.contains(key)) || is_known_as(key, "argument of all ranks");
        if (is_comparable) {
            require_equal("args." + key, value_a, file_a, value_b, file_b);
        }
    }
}

void refuse_unsupported(const StatedConfig& claims) {
    for (const auto& [key, value] : claims) {
        if (key.ends_with("glu_interleave_size") && value != "0" && value != kFalse) {
            throw Error(ErrorCode::unsupported,
                        "args." + printable(key) + " is " + printable(value) +
                            ": gate and up rows are stored interleaved in blocks, which this build "
                            "does not undo",
                        "save the checkpoint without that option");
        }
    }
}

std::map<std::string, Index> stated_sizes(const StatedConfig& claims) {
    std::map<std::string, Index> sizes;
    for (const auto& [fact, key] : kSizeKeys) {
        auto* const at = find_value(claims, key);
        if (at == nullptr) {
            continue;
        }
        const auto size = parse_index(*at);
        if (!size || *size < 1 || *size > kLargestSize) {
            throw Error(ErrorCode::corrupt, std::string("args.") + key + " is " + printable(*at) +
                                                ", expected a positive number");
        }
        sizes[fact] = *size;
    }
    return sizes;
}

bool has_other_tokenizer(const StatedConfig& claims) {
    auto* const at = find_value(claims, "tokenizer_type");
    return at != nullptr && at->find("HuggingFace") == std::string::npos &&
           at->find("Multimodal") == std::string::npos;
}

bool is_claimed(const StatedConfig& claims, const std::string& key, std::string_view value) {
    auto* const at = find_value(claims, key);
    return at != nullptr && *at == value;
}

bool shares_embeddings(const StatedConfig& claims) {
    return is_claimed(claims, "untie_embeddings_and_output_weights", kFalse);
}

}  // namespace shardweld::formats::megatron
