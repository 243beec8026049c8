// The grid of ranks that saved a checkpoint, drawn in characters.
// Knows grids and which files hold copies only; nothing of formats.
#pragma once

#include <string>
#include <vector>

#include "shardweld/formats/rank_grid.hpp"

namespace shardweld::app {

/// By file of a catalogue: whether it holds nothing but replicas.
std::vector<bool> copies_only(const catalogue::Catalogue& catalogue);

/// A line for each row of ranks, with a heading and the signs' meanings; "" for no grid and for one
/// rank. `is_copy` as copies_only, or empty.
std::string grid_text(const formats::RankGrid& grid, const std::vector<bool>& is_copy);

}  // namespace shardweld::app
