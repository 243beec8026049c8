#include "args.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

#include "shardweld/core/error.hpp"
#include "shardweld/core/fingerprint.hpp"
#include "shardweld/core/text.hpp"

#include "../shared/hints.hpp"
#include "../shared/json_text.hpp"

namespace shardweld::formats::megatron {

namespace {

using catalogue::Claims;

// A hyper-parameter is a word or a number; longer texts are data paths and command lines.
constexpr std::size_t kLongestText = 1024;

// A parallel size above this is not a size.
constexpr Index kLargestSize = 1 << 20;

// Lists in lists, for messages and comparisons.
constexpr int kDeepestList = 4;

// Of these a file that lacks one contradicts a file that has it.
constexpr std::array kCommonKeys = {
    "tensor_model_parallel_size",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "expert_model_parallel_size",
    "expert_tensor_parallel_size",
    "moe_mlp_glu_interleave_size",
    "num_layers",
    "hidden_size",
    "ffn_hidden_size",
    "num_attention_heads",
    "num_query_groups",
    "kv_channels",
    "num_experts",
    "padded_vocab_size",
    "swiglu",
    "group_query_attention",
};

// What a rank has for itself, by kinds. Megatron's own arguments that differ from rank to rank are
// `rank` and `local_rank`; its forks and launchers put more of the same kinds there.
constexpr std::string_view kOwnKeys =
    // its number
    "rank local_rank global_rank node_rank group_rank role_rank *_parallel_rank "
    // its device, host and process
    "device device_id gpu gpu_id cuda_device local_device host hostname node_name ip pid "
    // paths on its node's own disk
    "data_cache_path profile_dir non_persistent_local_ckpt_dir "
    // what one rank alone logs
    "tensorboard_* wandb_* mlflow_* swanlab_* one_logger_* "
    // only ranks that load data know them
    "do_train do_valid do_test "
    // measured: times and memory; no arguments at all
    "*_time *_timestamp *_memory _*";

constexpr std::array<std::pair<const char*, const char*>, 5> kSizeKeys = {{
    {"tp", "tensor_model_parallel_size"},
    {"pp", "pipeline_model_parallel_size"},
    {"vpp", "virtual_pipeline_model_parallel_size"},
    {"ep", "expert_model_parallel_size"},
    {"etp", "expert_tensor_parallel_size"},
}};

std::string text_of(double value) {
    std::array<char, 64> buffer{};
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
    return {buffer.data(), end};
}

std::string text_of(bool value) {
    return value ? "true" : "false";
}

std::optional<std::string> scalar_text(const PickleValue& value) {
    switch (value.kind) {
        case PickleKind::boolean:
            return text_of(value.integer != 0);
        case PickleKind::integer:
            return std::to_string(value.integer);
        case PickleKind::real:
            return text_of(value.real);
        case PickleKind::text:
            return value.text().size() <= kLongestText ? std::optional(std::string(value.text()))
                                                       : std::nullopt;
        default:
            return std::nullopt;
    }
}

std::optional<std::string> scalar_text(const nlohmann::json& value) {
    if (value.is_boolean()) {
        return text_of(value.get<bool>());
    }
    if (value.is_number_float()) {
        return text_of(value.get<double>());
    }
    if (value.is_number()) {
        return value.dump();
    }
    if (value.is_string() && value.get_ref<const std::string&>().size() <= kLongestText) {
        return value.get<std::string>();
    }
    return std::nullopt;
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
    return state != nullptr && state->is_mapping() ? state : nullptr;
}

bool is_own(std::string_view key) {
    static const auto patterns = split(kOwnKeys, ' ');
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](std::string_view pattern) { return glob_matches(pattern, key); });
}

std::string text_to_compare(const PickleValue& value, int depth) {
    if (const auto text = scalar_text(value)) {
        return *text;
    }
    switch (value.kind) {
        case PickleKind::none:
            return "None";
        case PickleKind::tuple:
        case PickleKind::list: {
            std::string text = "[";
            for (const PickleValue* element : value.elements()) {
                if (depth == kDeepestList || text.size() > kLongestText) {
                    text += "...";
                    break;
                }
                text += text_to_compare(*element, depth + 1) + ", ";
            }
            return text + "]";
        }
        case PickleKind::object:
        case PickleKind::global:
            return std::string(value.class_name());
        default:
            return std::string(name_of(value.kind));
    }
}

const std::string& value_or_none(const Claims& claims, const std::string& key) {
    static const std::string none = "(none)";
    const auto at = claims.find(key);
    return at == claims.end() ? none : at->second;
}

}  // namespace

Claims claims_of(const PickleValue& args) {
    Claims claims;
    const PickleValue* attributes = attributes_of(args);
    const std::size_t n_pairs = attributes == nullptr ? 0 : attributes->pair_count();
    for (std::size_t i = 0; i < n_pairs; ++i) {
        const PickleValue& key = attributes->key(i);
        auto text = scalar_text(attributes->value(i));
        if (key.kind == PickleKind::text && key.text().size() <= kLongestText && text) {
            claims[std::string(key.text())] = std::move(*text);
        }
    }
    return claims;
}

Claims claims_of_json(const std::string& text) {
    const auto root = parse_json(text);
    if (!root.is_object()) {
        throw Error(ErrorCode::corrupt, "is not a JSON object");
    }
    Claims claims;
    for (const auto& [key, value] : root.items()) {
        if (auto scalar = scalar_text(value)) {
            claims[key] = std::move(*scalar);
        }
    }
    return claims;
}

std::optional<Index> number_claim(const Claims& claims, std::string_view key) {
    const auto at = claims.find(std::string(key));
    return at == claims.end() ? std::nullopt : parse_index(at->second);
}

Claims common_args(const PickleValue& args) {
    Claims common;
    const PickleValue* attributes = attributes_of(args);
    const std::size_t n_pairs = attributes == nullptr ? 0 : attributes->pair_count();
    for (std::size_t i = 0; i < n_pairs; ++i) {
        const PickleValue& key = attributes->key(i);
        if (key.kind == PickleKind::text && key.text().size() <= kLongestText &&
            !is_own(key.text())) {
            common[std::string(key.text())] = text_to_compare(attributes->value(i), 0);
        }
    }
    return common;
}

Index fingerprint_of(const Claims& claims) {
    Fingerprint all;
    for (const auto& [key, value] : claims) {
        all.add(key);
        all.add(value);
    }
    return static_cast<Index>(all.value());
}

void require_agreement(const Claims& a, const std::string& file_a, const Claims& b,
                       const std::string& file_b) {
    Claims keys = a;
    keys.insert(b.begin(), b.end());
    for (const auto& [key, value] : keys) {
        const std::string& value_a = value_or_none(a, key);
        const std::string& value_b = value_or_none(b, key);
        const bool is_comparable =
            (a.contains(key) && b.contains(key)) ||
            std::find(kCommonKeys.begin(), kCommonKeys.end(), key) != kCommonKeys.end();
        if (is_comparable && value_a != value_b) {
            throw Error(ErrorCode::mismatch,
                        "args." + printable(key) + " is " + printable(value_a) + " in " +
                            printable(file_a) + " but " + printable(value_b) + " in " +
                            printable(file_b),
                        kOneSave);
        }
    }
}

void refuse_unsupported(const Claims& claims) {
    for (const auto& [key, value] : claims) {
        if (key.ends_with("glu_interleave_size") && value != "0") {
            throw Error(ErrorCode::unsupported,
                        "args." + printable(key) + " is " + printable(value) +
                            ": gate and up rows are stored interleaved in blocks, which this build "
                            "does not undo",
                        "save the checkpoint without that option");
        }
    }
}

std::map<std::string, Index> stated_sizes(const Claims& claims) {
    std::map<std::string, Index> sizes;
    for (const auto& [fact, key] : kSizeKeys) {
        const auto at = claims.find(key);
        if (at == claims.end()) {
            continue;
        }
        const auto size = parse_index(at->second);
        if (!size || *size < 1 || *size > kLargestSize) {
            throw Error(ErrorCode::corrupt, std::string("args.") + key + " is " +
                                                printable(at->second) +
                                                ", expected a positive number");
        }
        sizes[fact] = *size;
    }
    return sizes;
}

bool shares_embeddings(const Claims& claims) {
    const auto at = claims.find("untie_embeddings_and_output_weights");
    return at != claims.end() && at->second == text_of(false);
}

}  // namespace shardweld::formats::megatron
