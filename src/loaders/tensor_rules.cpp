// Names and shapes of the tensors, against config.json and the model's family.
#include <algorithm>
#include <array>
#include <set>

#include "core/config_fields.hpp"
#include "core/text.hpp"

#include "names.hpp"
#include "rule.hpp"

namespace shardweld::loaders {

namespace {

constexpr std::string_view kHeadBias = "head_bias";

/// Numbers of the layers of the text model's stack.
std::set<Index> layers_of(const ModelUnderCheck& model) {
    std::set<Index> numbers;
    for (const auto& [name, tensor] : model.weights.tensors) {
        if (const auto number = stack_layer_of(name)) {
            numbers.insert(*number);
        }
    }
    return numbers;
}

/// Looks at families that are not known; rule `names` sees more of the others.
void look_at_layers(const ModelUnderCheck& model, Findings& findings) {
    const auto count = model.number("num_hidden_layers");
    const std::set<Index> stored = layers_of(model);
    if (!count || stored.empty() || *count < 0 || is_family_whole(model.directory) ||
        !model.weights.is_whole) {
        return;
    }
    std::vector<std::string> missing;
    for (Index layer = 0; layer < *count && missing.size() < 100; ++layer) {
        if (!stored.contains(layer)) {
            missing.push_back(std::to_string(layer));
        }
    }
    if (!missing.empty()) {
        findings.fatal("layers that config.json counts are not stored: " + listed(missing),
                       "they would be random: merge again, or correct num_hidden_layers");
    }
    const Index more = *count + model.number("num_nextn_predict_layers").value_or(0);
    if (*stored.rbegin() >= more) {
        findings.doubtful("layers up to " + std::to_string(*stored.rbegin()) +
                              " are stored, config.json counts " + std::to_string(more),
                          "they would be left out: correct num_hidden_layers");
    }
}

bool has_prediction_names(const ModelUnderCheck& model) {
    return std::ranges::any_of(model.weights.tensors, [](const auto& entry) {
        return predicts_further_tokens(entry.first);
    });
}

/// A layer that predicts further tokens, by the names of its parts or its number.
bool has_prediction(const ModelUnderCheck& model) {
    const std::set<Index> stored = layers_of(model);
    return (!stored.empty() && *stored.rbegin() >= model.number("num_hidden_layers").value_or(0)) ||
           has_prediction_names(model);
}

void look_at_prediction(const ModelUnderCheck& model, Findings& findings) {
    for (const std::string_view name : kPredictionFields) {
        const std::string field(name);
        const Index promised = model.number(field.c_str()).value_or(0);
        if (promised > 0 && model.weights.is_whole && !model.weights.tensors.empty() &&
            !has_prediction(model)) {
            findings.doubtful("config.json promises " + std::to_string(promised) +
                                  " layers that predict further tokens (" + field +
                                  "), none is stored",
                              "set " + field + " to 0, or do not ask for speculation");
        }
    }
}

/// Phi-4 multimodal is released with its adapters' names.
bool is_released_with_adapters(const ModelUnderCheck& model) {
    return !model.field("speech_lora").is_null() || !model.field("vision_lora").is_null();
}

bool tell_adapters(const ModelUnderCheck& model, Findings& findings) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.weights.tensors) {
        if (is_of_adapter(name)) {
            names.push_back(name);
        }
    }
    if (names.empty() || is_released_with_adapters(model)) {
        return false;
    }
    findings.fatal(
        "tensors have the names that PEFT gives a model with an adapter: " + first_of(names),
        "no loader takes them for the model's: write it again with shardweld merge "
        "--backend hf --lora fold");
    return true;
}

bool tell_wrapper(const ModelUnderCheck& model, Findings& findings) {
    const std::string wrapper = wrapper_in(model);
    if (wrapper.empty()) {
        return false;
    }
    findings.fatal("names of tensors have a wrapper's prefix, " + printable(wrapper) + ": " +
                       printable(model.weights.tensors.begin()->first) + " and others",
                   "no loader takes it off: write the model again with shardweld merge --backend "
                   "hf");
    return true;
}

/// Rules of their own look at both ends of the model; value models have other heads.
bool is_other_rules(std::string_view name, std::string_view logical) {
    return logical == kHead || name.ends_with("lm_head.weight") || name.starts_with("score.") ||
           name.starts_with("classifier.");
}

std::vector<std::string> unexpected(const ModelUnderCheck& model, const Places& places) {
    std::vector<std::string> names;
    for (const auto& [name, tensor] : model.weights.tensors) {
        const bool is_known = places.known().contains(name) || is_part_of_codes(name) ||
                              is_other_rules(name, "") || is_computed(name) ||
                              any_glob_matches(model.directory.passes, name);
        if (!is_known) {
            names.push_back(name);
        }
    }
    return names;
}

/// The tensors that are not expected but that other layers of the family have; layers that predict
/// further tokens have more, and stand behind the others.
std::vector<std::string> layers_beyond(const ModelUnderCheck& model,
                                       const std::vector<std::string>& more) {
    std::set<std::string> patterns;
    for (const auto& [name, tensor] : model.directory.expected) {
        patterns.insert(tensor.logical.starts_with("layer.") ? digits_hidden(name) : "");
    }
    std::vector<std::string> beyond;
    for (const std::string& name : more) {
        const auto layer = stack_layer_of(name);
        if (layer && *layer >= model.number("num_hidden_layers").value_or(*layer + 1) &&
            patterns.contains(digits_hidden(name))) {
            beyond.push_back(name);
        }
    }
    return has_prediction_names(model) ? std::vector<std::string>() : beyond;
}

/// What became of the family's tensors.
struct Census {
    std::vector<std::string> missing;
    std::vector<std::string> of_other_shape;
    std::vector<std::string> of_other_name;
};

/// Stacks of experts are released with either order of the last two dims.
bool is_turned(const std::vector<Index>& stored, const std::vector<Index>& expected) {
    return stored.size() == 3 && expected.size() == 3 && stored[0] == expected[0] &&
           stored[1] == expected[2] && stored[2] == expected[1];
}

/// Whether what is stored is of another shape. Rows of an embedding have a rule of their own.
bool is_of_other_shape(const Place& place, const ExpectedTensor& tensor) {
    if (!place.shape || is_turned(*place.shape, tensor.shape)) {
        return false;
    }
    std::vector<Index> expected = tensor.shape;
    if (tensor.logical == kEmbedding && !expected.empty() && !place.shape->empty()) {
        expected.front() = place.shape->front();
    }
    return *place.shape != expected;
}

Census census_of(const ModelUnderCheck& model, const Places& places) {
    Census census;
    const bool may_lack_embedding =
        model.is_for(Loader::transformers) && !stored_head(model).empty() && is_tied(model) == true;
    const auto compare = [&](const Place& place, const ExpectedTensor& tensor) {
        if (is_of_other_shape(place, tensor)) {
            census.of_other_shape.push_back(place.name + " " + shape_text(*place.shape) + ", not " +
                                            shape_text(tensor.shape));
        }
    };
    for (const auto& [name, tensor] : model.directory.expected) {
        const Place place = places.of(name, tensor);
        if (is_other_rules(name, tensor.logical)) {
            if (tensor.logical == kHead && is_language_model(model.architecture())) {
                compare(place, tensor);
            }
            continue;
        }
        if (!place.is_there()) {
            if (!tensor.is_optional && !(tensor.logical == kEmbedding && may_lack_embedding)) {
                census.missing.push_back(name);
            }
            continue;
        }
        compare(place, tensor);
        if (place.is_other) {
            census.of_other_name.push_back(place.name + ", for " + name);
        }
    }
    return census;
}

/// Tensors that have a part of the model in common: of a tower, or the same part of all layers.
std::string company_of(const std::string& name, const ExpectedTensor& tensor) {
    return tensor.logical.starts_with("layer.")
               ? digits_hidden(name)
               : tensor.logical.substr(0, tensor.logical.find('.'));
}

/// "layer.bias" of "layer.weight", and the other way round; "" for other names.
std::string twin_of(const std::string& name) {
    constexpr std::string_view kOfWeight = ".weight";
    constexpr std::string_view kOfBias = ".bias";
    if (name.ends_with(kOfWeight)) {
        return name.substr(0, name.size() - kOfWeight.size()) + std::string(kOfBias);
    }
    return name.ends_with(kOfBias)
               ? name.substr(0, name.size() - kOfBias.size()) + std::string(kOfWeight)
               : "";
}

/// Masked language models have a bias of the head, which goes by one name or by two.
bool has_bias_of_head(const ModelUnderCheck& model, const Places& places) {
    return std::ranges::any_of(model.directory.expected, [&](const auto& entry) {
        return entry.second.logical.starts_with(kHeadBias) &&
               places.of(entry.first, entry.second).is_there();
    });
}

/// Whether a tensor that is optional in its family is none in this model: of the head of masked
/// language models, and where its twin is there, which is as optional.
bool is_needed_here(const ModelUnderCheck& model, const Places& places, const std::string& name,
                    const ExpectedTensor& tensor) {
    if (model.architecture().ends_with("ForMaskedLM") &&
        (tensor.logical.starts_with("words") ||
         (tensor.logical.starts_with(kHeadBias) && !has_bias_of_head(model, places)))) {
        return true;
    }
    const auto twin = model.directory.expected.find(twin_of(name));
    return twin != model.directory.expected.end() && twin->second.is_optional &&
           places.of(twin->first, twin->second).is_there();
}

/// Optional tensors are there together, or none of them.
void add_optional(const ModelUnderCheck& model, const Places& places, Census& census) {
    struct Company {
        std::size_t n_stored = 0;
        std::vector<std::string> missing;
    };
    std::map<std::string, Company> companies;
    for (const auto& [name, tensor] : model.directory.expected) {
        if (tensor.is_optional && !is_other_rules(name, tensor.logical)) {
            Company& company = companies[company_of(name, tensor)];
            if (places.of(name, tensor).is_there()) {
                ++company.n_stored;
            } else if (is_needed_here(model, places, name, tensor)) {
                census.missing.push_back(name);
            } else {
                company.missing.push_back(name);
            }
        }
    }
    for (auto& [pattern, company] : companies) {
        if (company.n_stored >= company.missing.size()) {
            std::ranges::move(company.missing, std::back_inserter(census.missing));
        }
    }
}

/// Where a missing tensor may be stored instead, for people.
std::string whereabouts(const ModelUnderCheck& model, const std::string& name) {
    if (const std::string prefix = prefix_before(model, name); !prefix.empty()) {
        return " (stored behind " + printable(prefix) + ")";
    }
    const std::string nearest = nearest_to(model, name);
    return nearest.empty() ? "" : " (the nearest that is stored is " + printable(nearest) + ")";
}

/// Names of a text model under the configuration of a composite one.
void look_at_roots(const ModelUnderCheck& model, Findings& findings) {
    const auto& roots = model.directory.roots;
    const auto& tensors = model.weights.tensors;
    const bool is_there = std::ranges::any_of(tensors, [&](const auto& entry) {
        return std::ranges::any_of(
            roots, [&](const std::string& root) { return entry.first.starts_with(root); });
    });
    if (!roots.empty() && !is_there && !tensors.empty() && !is_family_whole(model.directory)) {
        findings.fatal("no tensor's name begins with " + joined(roots, " or ") +
                           ", as those of the family " + printable(model.directory.family) +
                           " do: " + printable(tensors.begin()->first) + " and others",
                       "the language model would be random: rename them, or use the config.json of "
                       "the text model");
    }
}

/// The family makes nothing of config.json. Some fields are left out where a class's default is
/// meant.
void tell_fault(const ModelUnderCheck& model, Findings& findings) {
    const std::string& fault = model.directory.fault;
    if (fault.empty()) {
        return;
    }
    const bool is_default =
        fault.find("@text_config") != std::string::npos ||
        std::ranges::any_of(
            std::array{"vocab_size", "num_attention_heads", "num_key_value_heads", "head_dim"},
            [&](const char* field) {
                return model.field(field).is_null() && fault.find(field) != std::string::npos;
            });
    findings.add(!is_default,
                 "names and shapes of the family " + printable(model.directory.family) +
                     " cannot be told from config.json: " + fault,
                 is_default ? "the loader takes a default, with which they are not checked"
                            : "take it from the model that was trained");
}

void look_at_names(const ModelUnderCheck& model, Findings& findings) {
    if (tell_adapters(model, findings) || tell_wrapper(model, findings) ||
        !model.weights.is_whole) {
        return;
    }
    look_at_roots(model, findings);
    if (model.directory.expected.empty()) {
        tell_fault(model, findings);
        return;
    }
    const Places places(model);
    Census census = census_of(model, places);
    add_optional(model, places, census);
    const std::string family = printable(model.directory.family);
    if (!census.missing.empty()) {
        findings.fatal("tensors of the family " + family + " are missing: " +
                           first_of(census.missing) + whereabouts(model, census.missing.front()),
                       "they would be random: merge again, or copy all files");
    }
    findings.fatal_for(census.of_other_shape, "shapes are not those of config.json: ",
                       "correct config.json, or merge again with the model's own");
    if (!census.of_other_name.empty()) {
        findings.doubtful("names are not those of the Hub: " + first_of(census.of_other_name),
                          "transformers renames them, whether " +
                              std::string(name_of(model.request.loader)) +
                              " does is not checked here");
    }
    const auto more = unexpected(model, places);
    if (const auto beyond = layers_beyond(model, more); !beyond.empty()) {
        findings.fatal("config.json says num_hidden_layers " +
                           model.field("num_hidden_layers").dump() +
                           ", but further layers of the same kind are stored: " + first_of(beyond),
                       "they would be left out, without a word: correct num_hidden_layers");
    } else if (!more.empty()) {
        findings.doubtful("the family " + family + " has no such tensors: " + first_of(more),
                          "loaders leave them out, or refuse them");
    }
}

}  // namespace

constexpr auto kTensorTable = std::to_array<Rule>({
    {"layers", kHub, look_at_layers,
     "each of `num_hidden_layers` is stored, and none beyond, in families that are not known "
     "here",
     "transformers 5.24, run: a missing tensor is random, with a report only"},
    {"prediction", kHub, look_at_prediction,
     "`num_nextn_predict_layers` and its like count layers that are stored",
     "vLLM's MTP drafters, read"},
    {"names", kHub, look_at_names,
     "no names of adapters or wrappers; of families that are known, names and shapes are those "
     "that the recipe makes of config.json, or names that transformers renames to those",
     "transformers 5.24, run: a missing tensor is random, another shape a RuntimeError"},
});
const std::span<const Rule> kTensorRules = kTensorTable;

}  // namespace shardweld::loaders
