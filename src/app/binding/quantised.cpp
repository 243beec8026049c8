#include "quantised.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "catalogue/catalogue.hpp"
#include "core/names/config_fields.hpp"
#include "core/text.hpp"
#include "publish/config_edits.hpp"
#include "shardweld/error.hpp"

#include "unread_quantisation.hpp"

namespace shardweld::app {

namespace {

/// compressed-tensors' older name is the second.
constexpr std::array<const char*, 2> kGroups = {"quantization_config.config_groups",
                                                "compression_config.config_groups"};

bool is_eight_bit(DType dtype) {
    return is_float(dtype) && size_of(dtype) == 1;
}

bool quantises(const Job& job) {
    return std::ranges::any_of(job.outputs, [](auto& one) { return one.quantise.has_value(); });
}

bool has_other_types(const Job& job) {
    return std::ranges::any_of(job.outputs, [&](auto& one) {
        return one.dtype && one.dtype != job.outputs.front().dtype;
    });
}

std::vector<std::string> texts_at(const models::Config& config, const std::string& path) {
    std::vector<std::string> texts;
    for (const auto& value : config.list(path).value_or(std::vector<models::FieldValue>())) {
        if (const auto* text = std::get_if<std::string>(&value)) {
            texts.push_back(*text);
        }
    }
    return texts;
}

/// By the groups of compressed-tensors.
plan::BitsOf bits_in(const models::Config& config) {
    std::vector<std::vector<std::string>> targets;
    std::vector<std::optional<Index>> bits;
    for (const char* const groups : kGroups) {
        for (const std::string& name : config.keys(groups)) {
            const std::string group = std::string(groups) + "." + name;
            targets.push_back(texts_at(config, group + ".targets"));
            bits.push_back(config.integer(group + ".weights.num_bits"));
        }
    }
    if (bits.size() == 1) {
        return [only = bits.front()](const std::string&) { return only; };
    }
    return [targets, bits](const std::string& module) {
        const auto group = group_of(module, targets);
        return group ? bits[*group] : std::nullopt;
    };
}

[[noreturn]] void refuse_unscaled(const plan::Target& target) {
    throw Error(ErrorCode::unsupported,
                printable(target.name.text()) + " is stored as " + safetensors_name(target.stored) +
                    ", and no tensor holds its scales (NAME_scale_inv or NAME_scale): codes would "
                    "be taken for values",
                "copy the file that holds the scales; if the values need none, say so in "
                "config.json: \"dtype\": \"" +
                    torch_name(target.stored) + "\"");
}

/// Error(unsupported) for a tensor of codes that no quantisation explains: its integers are no
/// values.
void require_no_integers(const models::Config& config, const catalogue::Catalogue& catalogue) {
    if (const auto trace = integer_trace(catalogue); !trace.tensor.empty()) {
        refuse_unread(config, trace);
    }
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        if (!is_float(tensor.dtype) && publish::is_codes(tensor.name, tensor.dtype, tensor.shape)) {
            refuse_unread(config, {tensor.name, "by its type"});
        }
    }
}

}  // namespace

std::vector<plan::EncodedWeight> encoded_weights(const HeldModel& prepared, const Job& job,
                                                 catalogue::Catalogue& catalogue) {
    const std::optional<DType> dtype = prepared.choice.output.dtype;
    const bool has_others = quantises(job) || has_other_types(job);
    // Weights are written as something else than what is stored.
    const bool wants_values = dtype || has_others;
    if (wants_values || !prepared.recipe->hub.empty()) {
        if (const auto trace = named_trace(catalogue); !trace.tensor.empty()) {
            refuse_unread(prepared.config, trace);
        }
    }
    if (!wants_values) {
        return {};
    }
    std::vector<plan::EncodedWeight> weights;
    try {
        weights = plan::take_encoded(catalogue, bits_in(prepared.config));
    } catch (Error& error) {
        error.add_context(quantisation_text(prepared.config, "of which config.json says nothing"));
        throw;
    }
    require_no_integers(prepared.config, catalogue);
    if (!weights.empty() && (dtype != DType::bf16 || has_others)) {
        throw Error(ErrorCode::unsupported,
                    weights.front().name + " is stored as codes and scales, which become bf16 only",
                    quantises(job) ? "write the model with --dtype bf16 first"
                                   : "give --dtype bf16, or leave it out to keep the codes");
    }
    return weights;
}

void judge_unscaled(const models::Config& config, const Job& job, plan::Binding& binding) {
    const auto own = publish::stated_dtype(config);
    if (own && is_eight_bit(*own)) {
        return;
    }
    const bool is_made_of = quantises(job) || has_other_types(job);
    std::vector<std::string> unscaled;
    for (const plan::Target& target : binding.targets) {
        if (is_eight_bit(target.stored) && target.literal.empty() && !target.decode) {
            if (target.dtype != target.stored || target.fold || is_made_of) {
                refuse_unscaled(target);
            }
            if (target.shape.size() >= 2 && !target.name.text().ends_with("_scale")) {
                unscaled.push_back(target.name);
            }
        }
    }
    if (unscaled.empty() || !config.count("quantization_config")) {
        return;
    }
    std::set<std::string> names = collect_set(binding.targets, plan::full_name);
    std::erase_if(unscaled, [&](const std::string& name) {
        return names.contains(name + "_scale_inv") || names.contains(name + "_scale");
    });
    if (!unscaled.empty()) {
        binding.warnings.push_back(
            {"scales_missing", unscaled.front(),
             counted(unscaled.size(), "tensor") + " " + verb_of(unscaled.size(), "holds", "hold") +
                 " 8-bit floats whose scales are not stored: " + listed(unscaled) +
                 "; loaders would take codes for values"});
    }
}

}  // namespace shardweld::app
