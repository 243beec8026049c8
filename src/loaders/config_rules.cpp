// What config.json says by itself: whether it can be read, and names what the loader knows.
#include <algorithm>
#include <array>
#include <optional>

#include "core/json.hpp"
#include "core/text.hpp"

#include "known_names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

bool has_own_code(const ModelUnderCheck& model) {
    const json code = value_in(model.config, "auto_map");
    return code.is_object() && !code.empty();
}

void look_for_config(const ModelUnderCheck& model, Findings& findings) {
    constexpr std::string_view kMark = "\xef\xbb\xbf";
    if (model.directory.config_text.empty()) {
        findings.fatal("config.json is missing", "put the model's config.json there");
    } else if (model.directory.config_text.starts_with(kMark)) {
        findings.fatal("config.json begins with a byte order mark, which no loader's parser takes",
                       "save it as UTF-8 without one");
    } else if (!parsed_json(model.directory.config_text).is_object()) {
        findings.fatal("config.json is not a JSON object within the limits",
                       "copy it again from the model that was trained");
    }
}

/// The path of the first number that JSON has not, "" for none; NaN alone where `is_nan`.
std::string nonfinite_in(const json& value, const std::string& path, bool is_nan) {
    if (value.is_string()) {
        const double number = nonfinite_value(value.get_ref<const std::string&>());
        const bool is_one = is_nan ? number != number : number != 0;
        return is_one ? path : "";
    }
    if (value.is_structured()) {
        for (const auto& [key, inner] : value.items()) {
            std::string found = nonfinite_in(inner, path.empty() ? key : path + "." + key, is_nan);
            if (!found.empty()) {
                return found;
            }
        }
    }
    return "";
}

/// The path of the first such number that the model computes with.
std::string used_nonfinite_in(const json& config) {
    for (const auto& [field, value] : config.items()) {
        const std::string inner = is_computed_with(field) ? nonfinite_in(value, "", false)
                                  : value.is_object()     ? used_nonfinite_in(value)
                                                          : "";
        const bool is_plain = value.is_string() && is_computed_with(field) &&
                              nonfinite_value(value.get_ref<const std::string&>()) != 0;
        if (is_plain || !inner.empty()) {
            return inner.empty() ? field : field + "." + inner;
        }
    }
    return "";
}

/// Python's parser takes NaN and Infinity, Rust's refuses the file.
void look_at_numbers(const ModelUnderCheck& model, Findings& findings) {
    const bool is_rust = model.is_for(Loader::tgi);
    const std::string path = nonfinite_in(model.config, "", !is_rust);
    if (const std::string used = used_nonfinite_in(model.config); !used.empty() && !is_rust) {
        findings.fatal("config.json has NaN or Infinity in " + printable(used),
                       "Python reads it, and all that the model gives is NaN or without meaning: "
                       "take the number from the model that was trained");
    } else if (path.empty()) {
        return;
    } else if (is_rust) {
        findings.fatal(
            "config.json has NaN or Infinity in " + printable(path) +
                ", which TGI's parser refuses",
            R"(write a number, null, or {"__float__": "Infinity"} as transformers does)");
    } else {
        findings.doubtful("config.json has NaN in " + printable(path),
                          "Python reads it, and computes with it: write a number");
    }
}

/// The embedding has no row for a padding token beyond its end, which torch refuses.
void look_at_padding(const json& config, bool is_fatal, Findings& findings) {
    const json pad = value_in(config, "pad_token_id");
    const json size = value_in(config, "vocab_size");
    if (pad.is_number_integer() && size.is_number_integer() &&
        pad.get<Index>() >= size.get<Index>()) {
        findings.add(is_fatal,
                     "config.json says pad_token_id " + pad.dump() + ", vocab_size " + size.dump(),
                     "transformers refuses it: write null, or a token that there is");
    }
}

constexpr std::array<const char*, 8> kSizes = {
    "hidden_size",         "intermediate_size", "num_hidden_layers", "num_attention_heads",
    "num_key_value_heads", "head_dim",          "vocab_size",        "max_position_embeddings"};

/// transformers' configurations take no other number, nor a text.
void look_at_sizes(const ModelUnderCheck& model, Findings& findings) {
    for (const char* name : kSizes) {
        const json value = model.field(name);
        const bool is_list = value.is_array() || value.is_object();
        if (!value.is_null() && !is_list && !value.is_number_integer()) {
            findings.fatal(std::string("config.json says ") + name + " " +
                               printable(with_nonfinite(value.dump())) +
                               ", which is no whole number",
                           "take it from the model that was trained");
        }
    }
    look_at_padding(value_in(model.config, "text_config").is_object()
                        ? value_in(model.config, "text_config")
                        : model.config,
                    model.is_for(Loader::transformers), findings);
}

/// Whether the loader makes transformers' own configuration of config.json.
bool has_known_config(const ModelUnderCheck& model) {
    const std::string type = text_in(model.config, "model_type");
    return !type.empty() && knows_type(Loader::transformers, type) && !has_own_code(model);
}

/// Kinds of values of one configuration, and of those inside of it. Rule `sizes` has told of sizes.
void look_at_kinds(const json& config, const std::string& above, std::vector<std::string>& wrong) {
    const std::string type = text_in(config, "model_type");
    for (const auto& [field, value] : config.items()) {
        if (value.is_object() && field.ends_with("_config") && field != "quantization_config") {
            look_at_kinds(value, above + field + ".", wrong);
            continue;
        }
        const std::string taken = taken_instead(type, field, value);
        const bool is_told = !value.is_null() && std::ranges::find(kSizes, field) != kSizes.end();
        if (!taken.empty() && !is_told) {
            wrong.push_back(above + field + " " + with_nonfinite(value.dump()) + ", not " + taken);
        }
    }
}

/// Words of one configuration that transformers looks up.
void look_at_words_of(const ModelUnderCheck& model, const json& config,
                      std::vector<std::string>& wrong) {
    for (const char* field : {"dtype", "torch_dtype"}) {
        const json dtype = value_in(config, field);
        if (dtype.is_string() && !is_dtype(dtype.get<std::string>())) {
            wrong.push_back(std::string(field) + " " + dtype.dump() + ", no dtype of torch");
        }
    }
    const json function = value_in(config, "hidden_act");
    if (model.is_for(Loader::transformers) && function.is_string() &&
        !is_activation(function.get<std::string>())) {
        wrong.push_back("hidden_act " + function.dump() + ", no function that transformers knows");
    }
    for (const char* field : {"num_experts", "num_local_experts", "n_routed_experts"}) {
        const json chosen = value_in(config, "num_experts_per_tok");
        const json experts = value_in(config, field);
        if (chosen.is_number_integer() && experts.is_number_integer() && experts > 0 &&
            chosen > experts) {
            wrong.push_back("num_experts_per_tok " + chosen.dump() + " of " + experts.dump() +
                            " experts");
        }
    }
    const json kinds = value_in(config, "layer_types");
    const json count = value_in(config, "num_hidden_layers");
    // Some count layers that predict further tokens, too.
    const Index further = model.number("num_nextn_predict_layers").value_or(0);
    if (kinds.is_array() && count.is_number_integer() &&
        static_cast<Index>(kinds.size()) != count.get<Index>() &&
        static_cast<Index>(kinds.size()) - further != count.get<Index>()) {
        wrong.push_back("layer_types of " + std::to_string(kinds.size()) +
                        " layers, num_hidden_layers " + count.dump());
    }
}

void look_at_types(const ModelUnderCheck& model, Findings& findings) {
    if (!has_known_config(model)) {
        return;
    }
    std::vector<std::string> wrong;
    look_at_kinds(model.config, "", wrong);
    look_at_words_of(model, model.config, wrong);
    look_at_words_of(model, value_in(model.config, "text_config"), wrong);
    const json quantised = value_in(model.config, "quantization_config");
    if (!quantised.is_null() && !quantised.is_object()) {
        wrong.push_back("quantization_config " + quantised.dump() + ", not an object");
    }
    findings.fatal_for(wrong, "config.json says ",
                       "transformers' configuration refuses it: take it from the model that was "
                       "trained");
}

void look_at_classes(const ModelUnderCheck& model, Findings& findings) {
    const std::string name = model.architecture();
    if (model.directory.config_text.empty()) {
        return;
    }
    if (name.empty()) {
        findings.add(!model.is_for(Loader::transformers),
                     "config.json names no class in architectures",
                     "add the class that was trained, such as [\"LlamaForCausalLM\"]");
        return;
    }
    if (knows_class(model.request.loader, name)) {
        return;
    }
    const std::string type = text_in(model.config, "model_type");
    // The loader would know the class of a model type that it knows.
    const bool may_be_new = has_own_code(model) || (!model.directory.family.empty() &&
                                                    !knows_type(Loader::transformers, type));
    findings.add(!may_be_new && !model.is_for(Loader::transformers),
                 "architectures names " + printable(name) + ", a class that " +
                     std::string(name_of(model.request.loader)) + " does not know",
                 may_be_new ? "a newer version or a plugin may know it: try it with the loader"
                            : "write the class of the model, without what a training framework "
                              "put around it");
}

void look_at_model_type(const ModelUnderCheck& model, Findings& findings) {
    const std::string type = text_in(model.config, "model_type");
    if (model.directory.config_text.empty()) {
        return;
    }
    if (type.empty()) {
        findings.add(model.is_for(Loader::transformers) || model.is_for(Loader::tgi),
                     "config.json has no model_type", "add the model's, such as \"llama\"");
    } else if (!knows_type(model.request.loader, type) && !has_own_code(model)) {
        findings.add(model.directory.family.empty(),
                     "config.json says model_type " + printable(type) + ", which " +
                         std::string(name_of(model.request.loader)) +
                         " does not know without the model's own code",
                     model.directory.family.empty()
                         ? "correct it, or add auto_map and the code of the model"
                         : "copy the code of the model that was trained, or use a newer version");
    }
}

/// "module--Class" names another repository; "file.Class" a file of this one.
void look_at_code(const ModelUnderCheck& model, Findings& findings) {
    if (!has_own_code(model)) {
        return;
    }
    std::vector<std::string> missing;
    for (const json& entry : value_in(model.config, "auto_map")) {
        const std::string text = entry.is_string() ? entry.get<std::string>() : "";
        const std::string file = text.substr(0, text.find('.')) + ".py";
        if (!text.empty() && text.find("--") == std::string::npos &&
            !model.directory.files.contains(file)) {
            missing.push_back(file);
        }
    }
    const std::string type = text_in(model.config, "model_type");
    const bool is_known = !type.empty() && knows_type(model.request.loader, type);
    if (!missing.empty()) {
        findings.add(!is_known, "auto_map names code that is not there: " + listed(missing),
                     "copy it from the model that was trained, or remove auto_map");
    } else {
        findings.doubtful("config.json names code of its own (auto_map)",
                          "start with --trust_remote_code, or remove auto_map if the class is "
                          "the library's");
    }
}

// Rotary embeddings. Sources: transformers 5.24 modeling_rope_utils (validate_rope,
// ROPE_INIT_FUNCTIONS), run; vLLM 0.33 layers/rotary_embedding and transformers_utils/config
// (patch_legacy_rope_type), SGLang 0.5.23 layers/rotary_embedding/factory, read.

/// A form, what it needs, and who computes it. What lies beside it in config.json may be taken for
/// original_max_position_embeddings.
struct RopeForm {
    std::string_view type;
    unsigned loaders;
    std::vector<const char*> needed;
};

constexpr unsigned kVllm = bit(Loader::vllm);
constexpr unsigned kSglang = bit(Loader::sglang);

const std::vector<RopeForm>& rope_forms() {
    static const std::vector<RopeForm> forms = {
        {"default", kHub, {}},
        {"axial", kHub, {}},
        {"linear", kHub, {"factor"}},
        {"dynamic", kHub, {"factor"}},
        {"yarn", kHub, {"factor"}},
        {"longrope", kHub, {"short_factor", "long_factor"}},
        {"su", kHub, {"short_factor", "long_factor"}},
        {"llama3", kHub, {"factor", "low_freq_factor", "high_freq_factor"}},
        {"proportional", kHub, {}},
        {"mrope", kHub, {"mrope_section"}},
        {"ntk", kVllm, {"factor"}},
        // Models with code of their own compute it (Sarvam).
        {"deepseek_yarn", kHub, {"factor"}},
        {"deepseek_llama_scaling", kVllm, {"factor"}},
        {"bailing_mrope", kVllm, {"mrope_section"}},
        {"mllama4", kVllm, {}},
        {"openpangu", kVllm, {}},
        {"telechat3-yarn", kVllm, {"factor"}},
    };
    return forms;
}

/// Lists are of factors for each pair of dims, all else numbers.
bool has_value(const json& rope, const char* key) {
    const json value = value_in(rope, key);
    const bool is_list = std::string_view(key).ends_with("_section") ||
                         std::string_view(key).starts_with("short_") ||
                         std::string_view(key).starts_with("long_");
    return is_list ? value.is_array() && !value.empty()
                   : value.is_number() && value.get<double>() > 0;
}

/// Older names of forms, which transformers takes in some families only.
bool is_taken_in(std::string_view type, std::string_view family) {
    return type == "su"      ? family.starts_with("phi")
           : type == "mrope" ? family.find("vl") != std::string_view::npos ||
                                   family.find("omni") != std::string_view::npos
                             : true;
}

class RopeCheck {
  public:
    RopeCheck(const ModelUnderCheck& model, Findings& findings)
        : loader_(model.request.loader),
          family_(text_in(model.config, "model_type")),
          is_fatal_(!has_own_code(model)),
          findings_(findings) {}

    /// All objects of the configuration, `above` being the path to `object`.
    void look_into(const json& object, const std::string& above) {
        for (const auto& [key, value] : object.items()) {
            if (key == "rope_parameters" || key == "rope_scaling") {
                look_at_field(value, above + key, object);
            } else if (value.is_object()) {
                look_into(value, above + key + ".");
            }
        }
    }

  private:
    /// One for the model, or one for each kind of layer.
    void look_at_field(const json& value, const std::string& path, const json& around) {
        if (value.is_null()) {
            return;
        }
        if (!value.is_object()) {
            add(path + " is no object", "write null, or rope_type and what it needs");
            return;
        }
        const bool is_nested = std::ranges::any_of(
            value.items(), [](const auto& entry) { return entry.value().is_object(); });
        if (!is_nested) {
            look_at(value, path, around);
            return;
        }
        for (const auto& [key, inner] : value.items()) {
            if (inner.is_object()) {
                look_at(inner, path + "." + key, around);
            }
        }
    }

    void look_at(const json& rope, const std::string& path, const json& around) {
        const json stated = rope.contains("rope_type") ? rope["rope_type"] : value_in(rope, "type");
        const json theta = value_in(rope, "rope_theta");
        if (!theta.is_null() && !theta.is_number()) {
            add(path + " has rope_theta " + theta.dump() + ", which is no number",
                "take it from the model that was trained");
        }
        if (stated.is_null()) {
            if (rope.contains("rope_type") && loader_ == Loader::transformers) {
                add(path + " has rope_type null", "remove it, or say which form it is");
            } else if (rope.contains("factor")) {
                add(path + " has a factor, but no rope_type",
                    "say which form it is: linear, yarn, ...");
            }
            return;
        }
        const std::string type = stated.is_string() ? stated.get<std::string>() : stated.dump();
        look_for_conflict(rope, type, path);
        const auto form = std::ranges::find(rope_forms(), type, &RopeForm::type);
        const bool is_taken = loader_ != Loader::transformers || is_taken_in(type, family_);
        if (form == rope_forms().end() || (form->loaders & bit(loader_)) == 0 || !is_taken) {
            add(path + " has rope_type " + printable(type) + ", which " +
                    std::string(name_of(loader_)) + " does not compute",
                "correct it: default, linear, dynamic, yarn, longrope or llama3");
            return;
        }
        for (const char* key : form->needed) {
            if (!has_value(rope, key) && !(type == "dynamic" && is_by_alpha(rope))) {
                add(path + " (" + type + ") has no usable " + key,
                    "take it from the model that was trained");
            }
        }
        look_at_lists(rope, type, path, around);
    }

    [[nodiscard]] bool is_by_alpha(const json& rope) const {
        return loader_ != Loader::transformers && value_in(rope, "alpha").is_number();
    }

    void look_for_conflict(const json& rope, const std::string& type, const std::string& path) {
        const json older = value_in(rope, "type");
        const bool is_same = !older.is_string() || older == type ||
                             (older == "su" && type == "longrope") ||
                             (older == "mrope" && type == "default");
        if (!is_same && loader_ != Loader::transformers) {
            add(path + " has rope_type " + printable(type) + " and type " +
                    printable(older.get<std::string>()),
                "remove the one that is wrong");
        }
    }

    /// A factor for each pair of the dims that turn.
    void look_at_lists(const json& rope, const std::string& type, const std::string& path,
                       const json& around) {
        const auto pairs =
            type == "longrope" || type == "su" ? pairs_of(rope, around) : std::nullopt;
        for (const char* key : {"short_factor", "long_factor"}) {
            const json list = value_in(rope, key);
            if (pairs && list.is_array() && list.size() != *pairs) {
                add(path + "." + key + " has " + std::to_string(list.size()) + " factors for " +
                        std::to_string(*pairs) + " pairs of dims",
                    "take it from the model that was trained");
            }
        }
    }

    static std::optional<std::size_t> pairs_of(const json& rope, const json& around) {
        const json head = value_in(around, "head_dim");
        const json hidden = value_in(around, "hidden_size");
        const json heads = value_in(around, "num_attention_heads");
        double dims = 0;
        if (head.is_number_integer()) {
            dims = head.get<double>();
        } else if (hidden.is_number_integer() && heads.is_number_integer() &&
                   heads.get<Index>() > 0) {
            const Index head_size = hidden.get<Index>() / heads.get<Index>();
            dims = static_cast<double>(head_size);
        }
        for (const json& part :
             {value_in(around, "partial_rotary_factor"), value_in(rope, "partial_rotary_factor")}) {
            if (part.is_number()) {
                dims *= part.get<double>();
                break;
            }
        }
        return dims >= 2 && dims < 1e6 ? std::optional(static_cast<std::size_t>(dims) / 2)
                                       : std::nullopt;
    }

    void add(const std::string& text, const std::string& hint) {
        findings_.add(is_fatal_, "config.json: " + text, hint);
    }

    Loader loader_;
    std::string family_;  ///< model_type
    bool is_fatal_;
    Findings& findings_;
};

/// Each `rope_parameters` and `rope_scaling`, wherever in the configuration they stand.
void look_at_rope(const ModelUnderCheck& model, Findings& findings) {
    RopeCheck(model, findings).look_into(model.config, "");
}

}  // namespace

constexpr auto kConfigTable = std::to_array<Rule>({
    {"config", kHub, look_for_config, "config.json is there, and plain JSON",
     "transformers 5.24, run"},
    {"numbers", kHub, look_at_numbers,
     "config.json has neither NaN nor Infinity in numbers that the model computes with, NaN "
     "elsewhere is a remark only; for TGI none anywhere, which its parser refuses",
     "Python's json and transformers 5.24, run: outputs are NaN or zeros; TGI's launcher and "
     "router "
     "(serde_json), read"},
    {"sizes", kHub, look_at_sizes,
     "sizes in config.json are whole numbers, and pad_token_id is below `vocab_size`",
     "transformers 5.24, run: StrictDataclassFieldValidationError, AssertionError"},
    {"types", kHub & ~bit(Loader::tgi), look_at_types,
     "fields of config.json are of the kinds that transformers' configurations take, null of "
     "those of its own model type, `dtype` and `hidden_act` words that it knows, `layer_types` "
     "one for each layer",
     "transformers 5.24, run: StrictDataclassFieldValidationError, KeyError, AttributeError"},
    {"class", kHub & ~bit(Loader::tgi), look_at_classes,
     "`architectures` names a class that the loader knows; only a remark for transformers",
     "registries of models of vLLM 0.33, SGLang 0.5.23 and transformers 5.24, read"},
    {"model-type", kHub, look_at_model_type, "`model_type` is one that the loader knows",
     "transformers 5.24 AutoConfig, run: ValueError"},
    {"code", kHub, look_at_code, "files that `auto_map` names are there",
     "transformers 5.24 dynamic_module_utils, read"},
    {"rope", kHub, look_at_rope,
     "`rope_parameters` or `rope_scaling` is of a form that the loader computes, and has what "
     "the form needs",
     "transformers 5.24, run: KeyError; vLLM 0.33 and SGLang 0.5.23 get_rope, read"},
});
const std::span<const Rule> kConfigRules = kConfigTable;

}  // namespace shardweld::loaders
