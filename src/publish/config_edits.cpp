#include "config_edits.hpp"

#include <algorithm>
#include <array>
#include <map>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/names/config_fields.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::publish {

namespace {

using nlohmann::ordered_json;

// transformers' PretrainedConfig: a config without id2label and num_labels has two labels.
constexpr Index kDefaultLabels = 2;
// Lists of names are looked through from the start for each one that is added.
constexpr Index kMostLabels = 20'000;
constexpr std::string_view kCausal = "ForCausalLM";
constexpr std::string_view kTokenClasses = "ForTokenClassification";

bool is_eight_bit_float(DType dtype) {
    return size_of(dtype) == 1 && (is_float(dtype) || dtype == DType::f8_e8m0);
}

/// transformers writes `torch_dtype` up to 4.55 and `dtype` since; composite models repeat it in
/// text_config.
constexpr std::array<const char*, 4> kDtypeKeys = {"dtype", "torch_dtype", "text_config.dtype",
                                                   "text_config.torch_dtype"};

void edit_dtype(models::Config& config, DType dtype) {
    const std::string name(torch_name(dtype));
    bool is_stated = false;
    for (const char* key : kDtypeKeys) {
        const auto stated = config.text(key);
        if (stated && *stated != name) {
            config.set(key, json_string(name));
        }
        is_stated = is_stated || stated.has_value();
    }
    if (!is_stated) {
        config.set("torch_dtype", json_string(name));
    }
}

/// How many layers that predict further tokens are written; nullopt: not known.
std::optional<Index> predictions_in(const models::Config& config, const Facts& facts) {
    const auto layers = config.integer("num_hidden_layers");
    const bool is_behind = layers && facts.last_layer && *facts.last_layer >= *layers;
    if (!facts.predicts && !is_behind) {
        return facts.last_layer ? std::optional<Index>(0) : std::nullopt;
    }
    if (facts.predictions.value_or(0) > 0) {
        return facts.predictions;
    }
    return is_behind ? std::optional(*facts.last_layer - *layers + 1) : std::nullopt;
}

/// Layers that predict further tokens are promised, but not written.
void edit_predictions(models::Config& config, const Facts& facts, std::vector<std::string>& notes) {
    const auto written = predictions_in(config, facts);
    if (!written) {
        return;
    }
    const auto correct = [&](const std::string& field) {
        const Index promised = config.integer(field).value_or(0);
        if (promised > *written) {
            const std::string count = std::to_string(*written);
            config.set(field, count);
            notes.push_back(
                "config.json promised layers that predict further tokens (" + field + " " +
                std::to_string(promised) + "), but " +
                (*written == 0 ? "none is" : "only " + count + " of them are") +
                " stored: the written one says " + count +
                (*written == 0 ? " (--supplement DIR takes them from another model)" : ""));
        }
    };
    for (const std::string_view field :
         known_words("count of layers that predict further tokens")) {
        correct(std::string(field));
        for (const std::string_view inner : kInnerConfigs) {
            correct(std::string(inner) + "." + std::string(field));
        }
    }
}

/// Drops what describes the model or the language model in it as quantised.
void drop_quantisation(models::Config& config) {
    for (const char* key : {"quantization_config", "compression_config"}) {
        while (config.count(key)) {
            config.remove(key);
        }
    }
}

void edit_labels(models::Config& config, Index labels) {
    const auto names = config.count("id2label");
    const auto numbers = config.count("label2id");
    const Index stated = names.value_or(config.integer("num_labels").value_or(kDefaultLabels));
    if (stated == labels && numbers.value_or(labels) == labels) {
        return;
    }
    if (labels > kMostLabels) {
        throw Error(ErrorCode::mismatch,
                    "the head has " + std::to_string(labels) + " rows, config.json " +
                        std::to_string(stated) + " labels; at most " + std::to_string(kMostLabels) +
                        " are made up",
                    "say \"num_labels\": " + std::to_string(labels) + " there, without id2label");
    }
    ordered_json id2label = ordered_json::object();
    ordered_json label2id = ordered_json::object();
    for (Index i = 0; i < labels; ++i) {
        const std::string name = "LABEL_" + std::to_string(i);
        id2label[std::to_string(i)] = name;
        label2id[name] = i;
    }
    config.set("id2label", id2label.dump());
    config.set("label2id", label2id.dump());
    if (config.integer("num_labels").value_or(labels) != labels) {
        config.set("num_labels", std::to_string(labels));
    }
}

void edit_architectures(models::Config& config) {
    std::vector<std::string> names = config.architectures();
    bool is_changed = false;
    for (std::string& name : names) {
        if (name.ends_with(kCausal)) {
            name.replace(name.size() - kCausal.size(), kCausal.size(), kTokenClasses);
            is_changed = true;
        }
    }
    if (is_changed) {
        config.set("architectures", ordered_json(names).dump());
    }
}

bool says(const models::FieldValue& field, const ordered_json& value) {
    if (const auto* integer = std::get_if<Index>(&field)) {
        return value.is_boolean() ? *integer == (value.get<bool>() ? 1 : 0)
                                  : value.is_number() && value == *integer;
    }
    if (const auto* number = std::get_if<double>(&field)) {
        return value.is_number() && value == *number;
    }
    const auto* text = std::get_if<std::string>(&field);
    return text != nullptr && value.is_string() && value == *text;
}

/// A recipe's edit corrects a field that is there; an absent field says nothing that could be
/// wrong.
void apply(models::Config& config, const models::ConfigEdit& edit,
           const std::set<std::string>& logicals) {
    const bool is_present = std::ranges::any_of(logicals, [&](const std::string& logical) {
        return glob_matches(edit.logical_glob, logical);
    });
    const models::FieldValue stated = config.field(edit.field);
    const bool is_stated =
        !std::holds_alternative<std::monostate>(stated) || config.count(edit.field);
    if (is_present != edit.if_present || !is_stated) {
        return;
    }
    if (!edit.value) {
        config.remove(edit.field);
    } else if (!says(stated, parse_known_json<ordered_json>(*edit.value))) {
        config.set(edit.field, *edit.value);
    }
}

}  // namespace

bool is_codes(const std::string& name, DType dtype, std::span<const Index> shape) {
    if (is_eight_bit_float(dtype) || is_float(dtype) || dtype == DType::boolean) {
        return is_eight_bit_float(dtype);
    }
    // Masks (GPT-2's attn.bias), positions and tables of tokens are integers, too.
    const bool is_named_so = is_known_as(name, "codes of integers");
    const bool is_mask = name.ends_with("bias") || name.ends_with("mask");
    return shape.size() >= 2 && !is_mask &&
           (size_of(dtype) == 1 || (size_of(dtype) <= 4 && is_named_so));
}

std::optional<DType> stated_dtype(const models::Config& config) {
    for (const char* key : kDtypeKeys) {
        if (const auto stated = config.text(key)) {
            return dtype_from_torch(*stated);
        }
    }
    return std::nullopt;
}

std::vector<std::string> name_trained_classes(models::Config& config) {
    std::vector<std::string> names = config.architectures();
    std::ranges::transform(names, names.begin(), trained_class);
    if (names != config.architectures() || config.text("architectures")) {
        config.set("architectures", ordered_json(names).dump());
    }
    return names;
}

std::string made_generation_config(const models::Config& config) {
    const auto names = config.architectures();
    const bool generates = std::ranges::any_of(names, [](const std::string& name) {
        return name.ends_with(kCausal) || name.ends_with("ForConditionalGeneration");
    });
    if (!generates) {
        return "";
    }
    const auto all = parse_known_json<ordered_json>(config.text_to_write());
    const auto stated = [&](const std::string& key) {
        return all.is_object() && all.contains(key) ? all[key] : ordered_json();
    };
    ordered_json made = {{"_from_model_config", true}};
    for (const std::string_view word : known_words("field of generation_config.json")) {
        const std::string key(word);
        // A token may be a list of them.
        if (const auto value = stated(key); !value.is_null()) {
            made[key] = value;
        } else if (key.starts_with("output_")) {
            made[key] = false;  // what every config of transformers holds, though no file says so
        }
    }
    return made.dump(2) + "\n";
}

Facts facts_of(const plan::Targets& targets, const std::set<std::string>& logicals,
               const models::Recipe& recipe) {
    Facts facts;
    facts.edits = recipe.config;
    facts.logicals = logicals;
    std::map<DType, Bytes> bytes_of;
    for (const plan::Target& target : targets) {
        if (!target.file.empty() || !target.state.empty()) {
            continue;  // an adapter's or an optimizer's: beside the model
        }
        // Codes count as what they are computed with, scales not at all.
        if (is_float(target.cast()) && target.literal.empty()) {
            bytes_of[target.cast()] += target.bytes();
        }
        for (std::uint32_t at = 0; at < target.n_outputs(); ++at) {
            const plan::WrittenTensor& one = target.output(at);
            facts.is_quantised = facts.is_quantised || is_codes(one.name, one.dtype, one.shape);
        }
        const std::string name = target.name;
        if (!target.is_copy) {
            facts.predicts = facts.predicts || predicts_further_tokens(name);
            facts.last_layer = std::max(facts.last_layer, stack_layer_of(name));
        }
        if (name == "score.weight" && !target.shape.empty()) {
            facts.labels = target.shape.front();
        }
    }
    const auto most = std::ranges::max_element(
        bytes_of, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != bytes_of.end()) {
        facts.dtype = most->first;
    }
    return facts;
}

models::Config true_config(models::Config config, const Facts& facts,
                           std::vector<std::string>& notes) {
    if (facts.to_token_classes) {
        edit_architectures(config);
    }
    if (facts.dtype && !is_eight_bit_float(*facts.dtype)) {
        edit_dtype(config, *facts.dtype);
    }
    if (facts.labels) {
        edit_labels(config, *facts.labels);
    }
    for (const models::ConfigEdit& edit : facts.edits) {
        apply(config, edit, facts.logicals);
    }
    if (!facts.quantisation.empty()) {
        config.set("quantization_config", facts.quantisation);
    } else if (!facts.is_quantised) {
        drop_quantisation(config);
    }
    edit_predictions(config, facts, notes);
    return config;
}

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

ordered_json weights_of(const EncodingFacts& facts) {
    const bool is_integer = facts.codes == DType::i32;
    ordered_json weights = {{"num_bits", facts.code_bits},
                            {"type", is_integer ? "int" : "float"},
                            {"symmetric", true},
                            {"dynamic", false}};
    const bool is_block = facts.tile_rows > 1;
    weights["strategy"] = facts.divisor != nullptr  ? "tensor_group"
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
        weights["scale_dtype"] = "torch." + torch_name(*facts.scales);
    }
    return weights;
}

/// FP8 multiplies in FP8; all others read weights only.
ordered_json activations_of(const EncodingFacts& facts) {
    const bool is_block = facts.tile_rows > 1;
    if (facts.codes != DType::f8_e4m3) {
        return nullptr;
    }
    ordered_json activations = {{"num_bits", 8},
                                {"type", "float"},
                                {"symmetric", true},
                                {"dynamic", true},
                                {"strategy", is_block ? "group" : "token"}};
    activations["group_size"] = is_block ? ordered_json(facts.tile_columns) : ordered_json();
    return activations;
}

/// Without quantization_status the values are read as if they were no codes; compressed-tensors
/// gives no error.
ordered_json compressed_tensors(const EncodingFacts& facts, const std::vector<std::string>& kept) {
    ordered_json group = {{"targets", {"Linear"}}};
    group["weights"] = weights_of(facts);
    group["input_activations"] = activations_of(facts);
    group["output_activations"] = nullptr;
    group["format"] = facts.format;
    ordered_json config = {{"quant_method", "compressed-tensors"},
                           {"format", facts.format},
                           {"quantization_status", "compressed"},
                           {"ignore", kept}};
    config["config_groups"]["group_0"] = std::move(group);
    return config;
}

}  // namespace

std::string quantisation_config(Encoding encoding, const std::vector<std::string>& kept) {
    const EncodingFacts& facts = facts_of(encoding);
    const std::vector<std::string> all = with_head(kept);
    return facts.config != nullptr ? facts.config(facts, all)
                                   : compressed_tensors(facts, all).dump();
}

}  // namespace shardweld::publish
