// Which place of the parallel grid the job's rank number means.
// Knows Megatron's rank orders; nothing of files. Sources: megatron-core 0.16.1
// megatron/core/parallel_state.py (RankGenerator, initialize_model_parallel: decoder ranks in the
// order tp-cp-ep-dp-pp or tp-cp-ep-pp-dp, expert ranks alike with etp for tp and without cp) and
// megatron/training/initialize.py (use_tp_pp_dp_mapping).
#pragma once

#include <optional>
#include <vector>

#include "catalogue/statement.hpp"
#include "catalogue/tensor.hpp"

#include "grid.hpp"

namespace shardweld::formats::megatron {

/// The place as claims: "tp", "pp" and "ep" of a rank, each only where the grid has several.
using RankPlace = catalogue::Claims;

RankPlace place_in(const Grid& grid, const catalogue::Coordinates& place);

/// What the ranks' numbers (nullopt: not stated) say of each file's place under one order: the one
/// under which all fit their files' places (`grid`), else the first that `args` allow. Empty where
/// numbers tell nothing: they are alike in all files (made by one process) or not those of a world
/// of these sizes.
std::vector<RankPlace> places_by_rank(const Grid& grid, const catalogue::Claims& args,
                                      const std::vector<std::optional<Index>>& ranks);

}  // namespace shardweld::formats::megatron
