// Which modules an adapter's configuration names: PEFT's patterns and `target_modules`. Facts: peft
// 0.21 (utils/other.py get_pattern_key): a list entry matches a module whose path is it or ends
// with it after a dot; a pattern is a regular expression for the path's end.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "peft_names.hpp"

namespace shardweld::adapters {

/// Whether a pattern is only a module's name, which is matched quickly.
bool is_plain(const std::string& pattern);

/// Whether `pattern` matches an end of `path`. Error(unsupported) for an expression that cannot be
/// read or is longer than any that makes sense.
bool matches_end(const std::string& pattern, const std::string& path);

/// The texts in a list; none in what is no list.
std::vector<std::string> texts_in(const nlohmann::ordered_json& list);

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
