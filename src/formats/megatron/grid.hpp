// Legacy rank directories: which place of the parallel grid each one is, whether any is missing,
// and which place the job's rank number means. Sources: megatron-core 0.16.1
// megatron/training/checkpointing.py (get_checkpoint_name), megatron/core/parallel_state.py
// (RankGenerator, initialize_model_parallel: decoder ranks in the order tp-cp-ep-dp-pp or
// tp-cp-ep-pp-dp, expert ranks alike with etp for tp and without cp) and
// megatron/training/initialize.py (use_tp_pp_dp_mapping).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"

namespace shardweld::formats::megatron {

/// The numbers in "mp_rank_01_002_003"; one to three of them, of any width.
struct RankName {
    std::size_t n_fields = 0;
    std::array<Index, 3> fields{};
};

/// nullopt when `directory` is not named like a rank directory.
std::optional<RankName> parse_rank_name(std::string_view directory);

/// Sizes of the grid and the place of each file in it.
struct Grid {
    int tp = 1;
    int pp = 1;
    int ep = 1;
    int etp = 1;
    std::vector<Coordinates> places;  ///< of file i; vpp stays 0
    std::vector<bool> extra;          ///< file i repeats another for a data-parallel rank
};

/// The grid of what is there (place_files): files may be missing, or be the same rank's.
Grid arrange(const std::vector<std::string>& files, const std::map<std::string, Index>& stated);

/// The places without a file, `most` at most. Rank r of a pipeline stage is tp rank r % tp, etp
/// rank r % etp and ep rank (r / etp) % ep. The first max(tp, etp * ep) ranks hold every dense and
/// every expert shard; later ones only repeat them. Takes time like files and missing ones, however
/// large the sizes.
std::vector<Coordinates> missing_places(const Grid& grid, std::size_t most);

/// Places `files` ("mp_rank_01_002/x.pt") in the grid. `stated` are the sizes the files' args give
/// (tp, pp, ep, etp); they tell what a second number means and how many files there have to be;
/// without them the names decide. Error(not_found) naming missing files, Error(mismatch) when names
/// contradict `stated` or each other, Error(unsupported) for grids that legacy names cannot
/// express.
Grid place_files(const std::vector<std::string>& files, const std::map<std::string, Index>& stated);

/// The place as claims: "tp", "pp" and "ep" of a rank, each only where the grid has several.
using RankPlace = FileAssertion::Values;

RankPlace place_in(const Grid& grid, const Coordinates& place);

/// What the ranks' numbers (nullopt: not stated) say of each file's place under one order: the one
/// under which all fit their files' places (`grid`), else the first that `args` allow. Empty where
/// numbers tell nothing: they are alike in all files (made by one process) or not those of a world
/// of these sizes.
std::vector<RankPlace> places_by_rank(const Grid& grid, const StatedConfig& args,
                                      const std::vector<std::optional<Index>>& ranks);

}  // namespace shardweld::formats::megatron
