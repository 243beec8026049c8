// All names and shapes that a recipe's lines stand for, with the values of one config.json.
#pragma once

#include <string>
#include <vector>

#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::models {

/// A tensor of the model on the Hub, by a recipe and a config.json.
struct HubTensor {
    std::string name;
    std::vector<Index> shape;
    const Line* line = nullptr;  ///< of the recipe
};

/// In the order of the lines. Error(mismatch) when config.json lacks what they need, or promises
/// more than a million.
std::vector<HubTensor> hub_tensors(const Recipe& recipe, const Symbols& symbols);

}  // namespace shardweld::models
