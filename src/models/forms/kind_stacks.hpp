// Tensors that a framework stacks by kind of layer, such as the attention of sliding and of global
// layers: the way back of `alias .. stacked`.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/recipe.hpp"
#include "models/symbols.hpp"

namespace shardweld::models {

/// Whether the form's aliases have a name for what the line holds, by kind of layer. True of a
/// line's stacked twin too.
bool is_by_kind(const Line& line, const Dialect& form);

/// The line under each alias that has its name, where the alias' condition holds: as a part of a
/// stack where `stacks` has the capture, else with the layer's number.
std::vector<Line> by_kind(const Line& line, const Dialect& form,
                          const std::set<std::string>& stacks);

/// Where in its stack a layer is, and how many the stack holds. The line has a `kind_stack`.
std::pair<Index, Index> place_in_stack(const Line& line, Captures captures, const Symbols& symbols);

}  // namespace shardweld::models
