// The `target_modules` of an adapter's configuration: what names the wrapped modules and no others.
// Facts: peft 0.21, a list entry matches a module whose path is it or ends with it after a dot.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "modules.hpp"

namespace shardweld::adapters {

/// The first number among a path's components; -1: none.
Index layer_of(const std::string& path);

/// Whether a path is this one, or ends with it after a dot.
bool names_it(const std::string& entry, const std::string& path);

/// Whether `declared` (a list, or an expression as text) names every wrapped module.
bool covers(const nlohmann::ordered_json& declared, std::span<const Module> modules);

/// Whether the list `declared` names every path, by itself or by its end from a dot on.
bool names_all(const nlohmann::ordered_json& declared, std::span<const std::string> paths);

/// Last components where all modules of that name are wrapped, whole paths where only some are.
std::vector<std::string> target_modules(std::span<const Module> modules,
                                        const KnownModules& surroundings);

/// "score" of "model.score", sorted, without repeats.
std::vector<std::string> last_components(std::span<const std::string> paths);

}  // namespace shardweld::adapters
