#include "declared.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <string>
#include <utility>

#include "core/json.hpp"
#include "core/names/name_rules.hpp"
#include "core/text.hpp"
#include "core/yaml.hpp"
#include "shardweld/error.hpp"

#include "target_modules.hpp"

namespace shardweld::adapters {

namespace {

using nlohmann::ordered_json;

/// A field of LoraConfig and what it changes.
using Feature = std::pair<const char*, const char*>;

constexpr Feature kNever = {"layer_replication", "makes layers that the base does not have"};

// How PEFT merges these is not W + s B A, or they cannot be merged (tuners/lora/variants.py).
constexpr std::array<Feature, 6> kNeverFolded = {{
    {"alora_invocation_tokens", "applies from a token on (aLoRA)"},
    {"use_qalora", "pools its input (QALoRA)"},
    {"use_bdlora", "has factors of blocks (BD-LoRA)"},
    {"arrow_config", "chooses among adapters (Arrow)"},
    {"kasa_config", "scales its rank by a diagonal (KaSA)"},
    {"monteclora_config", "samples its weights (MonteCLoRA)"},
}};

bool is_set(const ordered_json& json, const char* field) {
    const auto* const value = stated(json, field);
    return value != nullptr && *value != false && !value->empty();
}

/// The text that a field holds; "" where it holds none.
std::string text_in(const ordered_json& json, const char* field) {
    const auto* const value = stated(json, field);
    return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

/// By module patterns: nullptr where a field holds none.
const ordered_json* patterns_in(const ordered_json& json, const char* field) {
    const auto* const patterns = stated(json, field);
    return patterns != nullptr && patterns->is_object() ? patterns : nullptr;
}

std::string value_text(const ordered_json& value) {
    return printable(
        with_nonfinite(value.dump(-1, ' ', false, ordered_json::error_handler_t::replace)));
}
constexpr const char* kMergeWithPeft = "merge it with peft itself";

[[noreturn]] void refuse(const ordered_json& json, const char* field, const ConfigFile& file,
                         const std::string& why, const std::string& hint) {
    throw Error(
        ErrorCode::unsupported,
        file.path + " says " + field + " " + value_text(json[field]) + ": the adapter " + why,
        hint);
}

[[noreturn]] void reject(const ordered_json& json, const char* field, const ConfigFile& file,
                         const std::string& expected) {
    throw Error(
        ErrorCode::mismatch,
        file.path + " says " + field + " " + value_text(json[field]) + ", expected " + expected,
        "correct it");
}

/// "LORA", and "PeftType.LORA" as Python prints its enumerations.
bool is_lora(const ordered_json& type) {
    std::string text = type.is_string() ? type.get<std::string>() : "";
    text.erase(0, text.rfind('.') + 1);
    std::ranges::transform(text, text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    return text == "LORA";
}

bool changes_base(const ordered_json& declared) {
    return is_known_as(text_in(declared, "init_lora_weights"), "beginning that changes the base");
}

ordered_json object_in(const ConfigFile& file) {
    std::optional<JsonFault> fault;
    auto json = parse_json<ordered_json>(without_nonfinite(file.text), &fault);
    if (fault && fault->kind == JsonFlaw::mark) {
        throw Error(ErrorCode::corrupt,
                    file.path + " begins with a byte order mark, which PEFT's parser refuses",
                    kMarkHint);
    }
    if (fault) {
        throw Error(
            ErrorCode::corrupt,
            file.path + (fault->what.empty() ? " is nested too deeply or has too many fields"
                                             : " is not valid JSON: " + printable(fault->what)));
    }
    if (!json.is_object()) {
        throw Error(ErrorCode::corrupt, file.path + " holds no JSON object");
    }
    return json;
}

/// A number where it is one; else text, which is refused where a number is needed.
ordered_json value_of(const std::string& text) {
    auto value = parse_json<ordered_json>(text);
    return value.is_number() ? value : ordered_json(text);
}

}  // namespace

const ordered_json& ConfigFile::json() const {
    if (parsed == nullptr) {
        parsed = std::make_shared<const ordered_json>(text.empty() ? ordered_json::object()
                                                                   : object_in(*this));
    }
    return *parsed;
}

const ordered_json* stated(const ordered_json& json, const char* field) {
    const auto found = json.find(field);
    return found == json.end() || found->is_null() ? nullptr : &*found;
}

std::optional<double> positive(const ordered_json& json, const char* field,
                               const ConfigFile& file) {
    const auto* const value = stated(json, field);
    if (value == nullptr || *value == 0) {
        return std::nullopt;
    }
    const double number = value->is_number() ? value->get<double>() : 0;
    if (!(std::isfinite(number) && number > 0)) {
        reject(json, field, file, "a number above 0");
    }
    return number;
}

bool flag(const ordered_json& json, const char* field, const ConfigFile& file) {
    const auto* const value = stated(json, field);
    if (value != nullptr && !value->is_boolean()) {
        reject(json, field, file, "true or false");
    }
    return value != nullptr && value->get<bool>();
}

std::vector<std::string> texts_of(const ordered_json& json, const char* field) {
    const auto* const list = stated(json, field);
    return list == nullptr ? std::vector<std::string>() : texts_in(*list);
}

void require_plain(const ordered_json& declared, const ConfigFile& file, AdapterUse use) {
    if (is_set(declared, "peft_type") && !is_lora(declared["peft_type"])) {
        refuse(declared, "peft_type", file, "is of another method", kMergeWithPeft);
    }
    if (is_set(declared, kNever.first)) {
        refuse(declared, kNever.first, file, kNever.second, kMergeWithPeft);
    }
    if (use == AdapterUse::beside) {
        return;
    }
    for (const auto& [field, what] : kNeverFolded) {
        if (is_set(declared, field)) {
            refuse(declared, field, file, what, "use --lora split: such adapters are not folded");
        }
    }
    if (use == AdapterUse::folded_into_given && changes_base(declared)) {
        refuse(declared, "init_lora_weights", file,
               "changed the base when its training began, and is not folded into --base",
               "save base and adapter together, or convert it with peft");
    }
}

std::optional<double> by_pattern(const ordered_json& json, const char* field,
                                 const std::string& path) {
    const auto* const patterns = patterns_in(json, field);
    if (patterns == nullptr) {
        return std::nullopt;
    }
    for (const auto& [pattern, value] : patterns->items()) {
        if (matches_end(pattern, path)) {
            return value.is_number() ? value.get<double>() : 0;  // 0: refused as any alpha of 0
        }
    }
    return std::nullopt;
}

void require_few_patterns(const ordered_json& json, const ConfigFile& file, std::size_t n_modules) {
    constexpr double kMostMatches = 1e9;  // of a name: nanoseconds
    constexpr double kExpression = 5e3;   // of an expression, as so many names
    for (const char* field : {"rank_pattern", "alpha_pattern"}) {
        const auto* const patterns = patterns_in(json, field);
        if (patterns == nullptr) {
            continue;
        }
        double n_matches = 0;
        for (const auto& [pattern, value] : patterns->items()) {
            n_matches += is_plain(pattern) ? 1 : kExpression;
        }
        if (n_matches * static_cast<double>(n_modules) > kMostMatches) {
            throw Error(ErrorCode::unsupported,
                        file.path + ": " + field + " has " + std::to_string(patterns->size()) +
                            " entries for " + std::to_string(n_modules) +
                            " modules, too many of them expressions",
                        "write module names");
        }
    }
}

Release release_of(const ordered_json& json) {
    // Releases by fields of LoraConfig, which PEFT writes all (peft 0.17.1 to 0.21.2).
    constexpr std::array<std::pair<const char*, const char*>, 8> kFields = {{
        {"kasa_config", "0.21.0"},
        {"monteclora_config", "0.20.0"},
        {"velora_config", "0.20.0"},
        {"lora_ga_config", "0.19.0"},
        {"use_bdlora", "0.19.0"},
        {"alora_invocation_tokens", "0.18.0"},
        {"arrow_config", "0.18.0"},
        {"ensure_weight_tying", "0.18.0"},
    }};
    Release release;
    release.version = text_in(json, "peft_version");
    auto* const newest =
        find_where(kFields, [&](const auto& field) { return json.contains(field.first); });
    if (newest != nullptr) {
        release.field = newest->first;
        release.since = newest->second;
        release.lacks_newer = release.since == kFields.back().second;
    }
    return release;
}

ConfigFile train_meta_of_args(const ConfigFile& args) {
    if (!has_part(args.text, "\"lora_alpha\"")) {
        return {args.path, ""};
    }
    const ordered_json& json = args.json();
    ordered_json meta = ordered_json::object();
    for (const auto& [from, to] :
         {std::pair("lora_rank", "r"), std::pair("lora_alpha", "lora_alpha"),
          std::pair("use_rslora", "use_rslora")}) {
        if (const auto field = json.find(from); field != json.end()) {
            meta[to] = *field;
        }
    }
    meta["task_type"] = "CAUSAL_LM";
    return {args.path, meta.dump()};
}

ConfigFile train_meta_of(const ConfigFile& run_config) {
    const YamlFields fields = yaml_section(run_config.text, "peft");
    if (fields.empty()) {
        return {run_config.path, ""};
    }
    auto* const target = find_value(fields, "_target_");
    const std::string kind = target == nullptr ? "LoRA" : target->substr(target->rfind('.') + 1);
    if (kind != "LoRA" && kind != "CanonicalLoRA" && kind != "VLMLoRA") {
        throw Error(ErrorCode::unsupported,
                    run_config.path + " says that the adapter is of " + printable(kind),
                    "merge it into the model with the framework that trained it");
    }
    ordered_json meta = ordered_json::object();
    for (const auto& [from, to] : {std::pair("dim", "r"), std::pair("alpha", "lora_alpha")}) {
        if (auto* const field = find_value(fields, from)) {
            meta[to] = value_of(*field);
        }
    }
    meta["task_type"] = "CAUSAL_LM";
    return {run_config.path, meta.dump()};
}

}  // namespace shardweld::adapters
