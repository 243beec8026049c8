// What an optimizer is set to, for those who read checkpoints and those who write them.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace shardweld {

/// Settings by name, each as JSON text: "0.1", "[0.9, 0.95]", "true", "null".
using Settings = std::map<std::string, std::string>;

/// Parameters that share settings.
struct ParameterGroup {
    Settings settings;                    ///< lr, betas, eps, weight_decay, ...
    std::vector<std::string> parameters;  ///< their names; empty where the save does not tell them
};

}  // namespace shardweld
