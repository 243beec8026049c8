#include "run_config.hpp"

#include <utility>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "core/text.hpp"
#include "core/yaml.hpp"
#include "shardweld/error.hpp"

#include "declared.hpp"

namespace shardweld::adapters {

namespace {

/// A number where it is one; else text, which is refused where a number is needed.
nlohmann::ordered_json value_of(const std::string& text) {
    auto value = parse_json<nlohmann::ordered_json>(text);
    return value.is_number() ? value : nlohmann::ordered_json(text);
}

}  // namespace

ConfigFile train_meta_of_args(const ConfigFile& args) {
    if (args.text.find("\"lora_alpha\"") == std::string::npos) {
        return {args.path, ""};
    }
    const auto json = parse_declared(args);
    nlohmann::ordered_json meta = nlohmann::ordered_json::object();
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
    const auto target = fields.find("_target_");
    const std::string kind =
        target == fields.end() ? "LoRA" : target->second.substr(target->second.rfind('.') + 1);
    if (kind != "LoRA" && kind != "CanonicalLoRA" && kind != "VLMLoRA") {
        throw Error(ErrorCode::unsupported,
                    run_config.path + " says that the adapter is of " + printable(kind),
                    "merge it into the model with the framework that trained it");
    }
    nlohmann::ordered_json meta = nlohmann::ordered_json::object();
    for (const auto& [from, to] : {std::pair("dim", "r"), std::pair("alpha", "lora_alpha")}) {
        if (const auto field = fields.find(from); field != fields.end()) {
            meta[to] = value_of(field->second);
        }
    }
    meta["task_type"] = "CAUSAL_LM";
    return {run_config.path, meta.dump()};
}

}  // namespace shardweld::adapters
