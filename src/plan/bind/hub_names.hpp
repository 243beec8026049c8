// The names a recipe expects in the output: every hub line for every index value its condition
// allows.
#pragma once

#include <functional>
#include <string>

#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::plan {

/// A name that the output has, and the line that it comes from.
struct HubName {
    const models::Line* line = nullptr;
    models::Captures captures;
    std::string name;
};

/// Calls `use` for each expected name, line by line, captures counting up, until it returns false.
/// Error(mismatch) before the first one when config.json promises more names than any model has.
void for_each_hub_name(const models::Recipe& recipe, const models::Symbols& symbols,
                       const std::function<bool(const HubName&)>& use);

}  // namespace shardweld::plan
