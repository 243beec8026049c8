// Where adapter_config.json says one thing and what is stored another: said, since PEFT would load
// the one or the other. Facts: PEFT's LoraConfig (peft 0.20).
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "declared.hpp"
#include "peft_names.hpp"

namespace shardweld::adapters {

/// A sentence for each: no peft_type; layers_to_transform, target_modules and patterns that do not
/// fit the factors; switches that are off although their parts are stored; modules_to_save of which
/// nothing is stored. Nothing where there is no file.
std::vector<std::string> contradictions(const nlohmann::ordered_json& declared,
                                        const ConfigFile& file, std::span<const Module> modules,
                                        const KnownModules& surroundings);

}  // namespace shardweld::adapters
