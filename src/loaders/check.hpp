// Whether a model directory would load: the rules of the programs that serve it, without running
// them. Sources: what was run with transformers 5.23, safetensors 0.8 and compressed-tensors 0.20,
// and what was read in vLLM's and SGLang's code, stand at each rule (loader_rules).
#pragma once

#include <string_view>
#include <vector>

#include "directory.hpp"

namespace shardweld::loaders {

/// A rule as documents show it.
struct RuleText {
    std::string_view name;
    std::string_view text;
    std::string_view source;  ///< what was run, or which code was read
    std::vector<Loader> loaders;
};

/// All rules, in the order in which they are checked.
std::vector<RuleText> loader_rules();

/// What would go wrong, the fatal ones first. Error(corrupt) when config.json is no JSON object.
std::vector<Finding> check(const Directory& directory, const Request& request);

}  // namespace shardweld::loaders
