// What a LoRA adapter's numbers mean: alpha, scales and the adapter_config.json written beside it.
// Facts: PEFT's configuration (peft 0.21, LoraConfig) and verl's lora_train_meta.json.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "declared.hpp"
#include "peft_names.hpp"
#include "separate.hpp"

namespace shardweld::adapters {

/// The field that names parameters which are wrapped on their own.
inline constexpr const char* kParameters = "target_parameters";
/// What to do where the base is another model.
inline constexpr const char* kTrainedOn =
    "give the model that the adapter was trained on with --base";

/// Where settings come from, the surest first.
struct SettingsSources {
    std::optional<double> alpha;  ///< --lora_alpha
    ConfigFile adapter_config;    ///< lora_adapter/adapter_config.json
    ConfigFile train_meta;        ///< lora_train_meta.json
    std::string base_model;       ///< base_model_name_or_path where the config names none; "" none
};

/// The numbers of an adapter that all its sources agree on, and the adapter_config.json made of
/// them.
struct Settings {
    std::vector<double> scales;      ///< by module: alpha / r or alpha / sqrt(r)
    bool fan_in_fan_out = false;     ///< weights are stored [n_in, n_out]
    std::string config_text;         ///< adapter_config.json as it is written
    std::vector<std::string> notes;  ///< contradictions and how they were settled
};

/// Error(unsupported) where adapter_config.json declares what this program does not read right, as
/// it is used; Error(corrupt) as below.
void require_plain_lora(const SettingsSources& sources, AdapterUse use);

/// The biases that adapter_config.json counts to the adapter. Error(corrupt) for a file that is no
/// JSON object.
Biases biases_of(const SettingsSources& sources);

/// Which PEFT wrote adapter_config.json.
Release release_of(const SettingsSources& sources);

/// Ranks come from the weights; alpha from --lora_alpha, adapter_config.json, lora_train_meta.json
/// in this order. Error(mismatch) when none says it (or says 0, as verl does when it does not
/// know), when a field holds no value of its kind, and when modules lack a part that others have or
/// the configuration promises; Error(corrupt) for files that are no JSON objects,
/// Error(unsupported) for patterns that cannot be read.
Settings resolve_settings(const SettingsSources& sources, std::span<const Module> modules,
                          const KnownModules& surroundings);

}  // namespace shardweld::adapters
