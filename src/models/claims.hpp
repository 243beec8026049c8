// config.json against what the checkpoint itself states of the model.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "config.hpp"
#include "recipe.hpp"

namespace shardweld::models {

/// What `claim` rules found, a line each.
struct ClaimCheck {
    /// "config.json says num_hidden_layers 4, the checkpoint's args say num_layers 6".
    std::vector<std::string> contradictions;
    /// What is stated in a form that cannot be compared: "num_layers is 'some Class'".
    std::vector<std::string> unread;
};

/// Rules of which one side is absent, or whose condition does not hold or cannot be worked out, say
/// nothing; nor do those about the fields in `settled`, which somebody answers for. A list of
/// values agrees with each of them.
ClaimCheck check_claims(const Dialect& dialect, const Config& config,
                        const std::map<std::string, std::string>& claims,
                        const std::set<std::string>& settled = {});

/// Error(unsupported) naming the recipe, what the checkpoint states and the reason when a `refuse`
/// rule of the dialect holds; Error(mismatch) when one cannot be decided.
void require_fit(const Recipe& recipe, const Dialect& dialect, const Config& config,
                 const std::map<std::string, std::string>& claims);

}  // namespace shardweld::models
