#include "shardweld/loaders/check.hpp"

#include <algorithm>
#include <array>

#include "shardweld/core/error.hpp"
#include "shardweld/core/json.hpp"
#include "shardweld/core/text.hpp"

#include "rule.hpp"

namespace shardweld::loaders {

namespace {

using nlohmann::json;

constexpr std::array<Loader, 5> kLoaders = {Loader::transformers, Loader::vllm, Loader::sglang,
                                            Loader::tgi, Loader::llama_cpp};

json parsed(const std::string& text) {
    if (text.empty()) {
        return json::object();
    }
    json config = parse_json<json>(without_nonfinite(text));
    if (!config.is_object()) {
        throw Error(ErrorCode::corrupt, "config.json is not a JSON object within the limits");
    }
    return config;
}

std::vector<const Rule*> all_rules() {
    std::vector<const Rule*> rules;
    for (const auto* part :
         {&directory_rules(), &name_rules(), &quantisation_rules(), &parallel_rules()}) {
        for (const Rule& rule : *part) {
            rules.push_back(&rule);
        }
    }
    return rules;
}

json value_in(const json& object, const char* name) {
    const auto at = object.find(name);
    return at == object.end() ? json() : *at;
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

nlohmann::json Case::field(const char* name) const {
    json value = value_in(config, name);
    const json inner = value_in(config, "text_config");
    return value.is_null() && inner.is_object() ? value_in(inner, name) : value;
}

std::optional<Index> Case::number(const char* name) const {
    const json value = field(name);
    return value.is_number_integer() ? std::optional(value.get<Index>()) : std::nullopt;
}

const std::pair<const std::string, StoredTensor>* Case::ending_in(
    const std::vector<std::string_view>& endings) const {
    for (const auto& entry : directory.tensors) {
        if (std::ranges::any_of(endings, [&](std::string_view ending) {
                return entry.first == ending || entry.first.ends_with("." + std::string(ending));
            })) {
            return &entry;
        }
    }
    return nullptr;
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
    Case looked{
        directory, request, parsed(directory.config_text), {}, modules_of(directory.tensors)};
    looked.scheme = scheme_of(value_in(looked.config, "quantization_config"));
    std::vector<Finding> found;
    for (const Rule* rule : all_rules()) {
        if ((rule->loaders & bit(request.loader)) != 0) {
            Findings findings(rule->name, found);
            rule->look(looked, findings);
        }
    }
    std::ranges::stable_sort(found, std::greater<>(), &Finding::is_fatal);
    return found;
}

}  // namespace shardweld::loaders
