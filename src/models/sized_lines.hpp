// Lines whose extents are those of the tensors that are stored: families of which no one wrote down
// what config.json says.
#pragma once

#include <string>
#include <vector>

#include "recipe.hpp"
#include "symbols.hpp"

namespace shardweld::models {

/// A stored tensor: its name after the recipe's `rename` rules.
struct ShapedName {
    std::string name;
    std::vector<Index> shape;
};

/// The recipe with its `sized` lines for these tensors alone: each logical tensor has lines of its
/// own, with the numbers in its names and extents that the shapes give. A capture that the logical
/// tensor's name lacks counts the stored ones. Error(mismatch) where the shapes of a tensor do not
/// tell an extent, or contradict each other; what is stored as the hub has it gets no lines then,
/// and passes, if `is_for_hub`.
Recipe sized_for(const Recipe& recipe, const Symbols& symbols,
                 const std::vector<ShapedName>& stored, bool is_for_hub);

}  // namespace shardweld::models
