// The grid of ranks that saved a checkpoint, drawn in characters.
#pragma once

#include <string>
#include <vector>

#include "formats/rank_grid.hpp"

namespace shardweld::app {

/// By file of a catalogue: whether it holds nothing but replicas.
std::vector<bool> copies_only(const catalogue::Catalogue& catalogue);

/// A line for each row of ranks, with a heading and the signs' meanings; "" for no grid and for one
/// rank. `is_copy` as copies_only, or empty.
std::string grid_text(const formats::RankGrid& grid, const std::vector<bool>& is_copy);

/// Leaves of a checkpoint's facts, a map or a JSON object, those that people read: t and te are tp
/// and etp as recipes compute with them.
template <typename Facts>
void leave_shown(Facts& facts) {
    facts.erase("t");
    facts.erase("te");
}

}  // namespace shardweld::app
