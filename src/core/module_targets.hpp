// Which group of a quantisation a module belongs to, by compressed-tensors' targets. Knows texts.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardweld {

/// The number of the group whose targets name a linear layer best: its own name, else a regular
/// expression ("re:.*mlp.*") that matches from its beginning, else the class Linear. nullopt: none,
/// or several groups equally well. Error(usage) for an expression that cannot be compiled.
std::optional<std::size_t> group_of(std::string_view module,
                                    const std::vector<std::vector<std::string>>& targets);

}  // namespace shardweld
