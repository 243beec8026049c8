#include "check.hpp"

#include <algorithm>
#include <array>

#include "core/json.hpp"
#include "core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

constexpr std::array<Loader, 5> kLoaders = {Loader::transformers, Loader::vllm, Loader::sglang,
                                            Loader::tgi, Loader::llama_cpp};

constexpr Rule kWeightsRule = {"weights", kHub, nullptr,
                               "the files that the loader takes are there, each is "
                               "safetensors as its own parser reads them, and no tensor is in two",
                               "safetensors 0.8 and transformers 5.24, run: a model.safetensors "
                               "goes before the index, which has metadata; vLLM's, "
                               "SGLang's and TGI's loaders, read"};

/// Empty where config.json is none: rule `config` tells so.
json config_of(const std::string& text) {
    json config = text.empty() ? json() : parsed_json(text);
    return config.is_object() ? config : json::object();
}

std::vector<const Rule*> all_rules() {
    std::vector<const Rule*> rules = {&kWeightsRule};
    for (const std::span<const Rule> part :
         {kConfigRules, kTextRules, kEndRules, kTensorRules, kPartRules, kQuantisationRules,
          kParallelRules, kGgufRules}) {
        for (const Rule& rule : part) {
            rules.push_back(&rule);
        }
    }
    return rules;
}

}  // namespace

std::span<const Loader> all_loaders() {
    return kLoaders;
}

std::string_view name_of(Loader loader) {
    constexpr std::array<std::string_view, 5> kNames = {"transformers", "vllm", "sglang", "tgi",
                                                        "llama.cpp"};
    return kNames.at(static_cast<std::size_t>(loader));
}

json parsed_json(const std::string& text) {
    return parse_json<json>(without_nonfinite(text));
}

json ModelUnderCheck::field(const char* name) const {
    json value = value_in(config, name);
    return value.is_null() ? value_in(value_in(config, "text_config"), name) : value;
}

std::optional<Index> ModelUnderCheck::number(const char* name) const {
    const json value = field(name);
    return value.is_number_integer() ? std::optional(value.get<Index>()) : std::nullopt;
}

std::string ModelUnderCheck::architecture() const {
    const json classes = value_in(config, "architectures");
    return classes.is_array() && !classes.empty() && classes[0].is_string()
               ? classes[0].get<std::string>()
               : "";
}

const std::pair<const std::string, StoredTensor>* ModelUnderCheck::ending_in(
    const std::vector<std::string_view>& endings) const {
    for (const auto& entry : weights.tensors) {
        if (std::ranges::any_of(endings, [&](std::string_view ending) {
                return entry.first == ending || entry.first.ends_with("." + std::string(ending));
            })) {
            return &entry;
        }
    }
    return nullptr;
}

bool is_language_model(std::string_view architecture) {
    return architecture.ends_with("ForCausalLM") ||
           architecture.ends_with("ForConditionalGeneration") ||
           architecture.ends_with("LMHeadModel");
}

std::string first_of(const std::vector<std::string>& names) {
    return printable(names.front()) +
           (names.size() > 1 ? " and " + std::to_string(names.size() - 1) + " more" : "");
}

std::vector<RuleText> loader_rules() {
    std::vector<RuleText> texts;
    for (const Rule* rule : all_rules()) {
        RuleText text{rule->name, rule->text, rule->source, {}};
        std::ranges::copy_if(kLoaders, std::back_inserter(text.loaders),
                             [&](Loader loader) { return (rule->loaders & bit(loader)) != 0; });
        texts.push_back(std::move(text));
    }
    return texts;
}

std::vector<Finding> check(const Directory& directory, const Request& request) {
    ModelUnderCheck looked{directory, request, config_of(directory.config_text), {}, {}, {}};
    if (request.loader != Loader::llama_cpp) {
        looked.weights = weights_for(directory, looked.config, request.loader, kWeightsRule.name);
    }
    json quantised = looked.field("quantization_config");
    looked.scheme = scheme_of(quantised.is_null() ? looked.field("compression_config") : quantised);
    looked.modules = modules_of(looked.weights.tensors);
    std::vector<Finding> found = looked.weights.findings;
    for (const Rule* rule : all_rules()) {
        if ((rule->loaders & bit(request.loader)) != 0 && rule->look != nullptr) {
            Findings findings(rule->name, found);
            rule->look(looked, findings);
        }
    }
    std::ranges::stable_sort(found, std::greater<>(), &Finding::is_fatal);
    return found;
}

}  // namespace shardweld::loaders
