// Legacy rank directories: which place of the parallel grid each one is, and whether any is
// missing. Knows Megatron's rank order; nothing of what the files hold. Sources: megatron-core
// 0.16.1 megatron/training/checkpointing.py (get_checkpoint_name), megatron/core/parallel_state.py
// (order tp-cp-ep-dp-pp).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "catalogue/tensor.hpp"

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
    std::vector<catalogue::Coordinates> places;  ///< of file i; vpp stays 0
    std::vector<bool> extra;  ///< file i repeats another for a data-parallel rank
};

/// As place_files, of what is there: files may be missing, or be the same rank's.
Grid arrange(const std::vector<std::string>& files, const std::map<std::string, Index>& stated);

/// The places without a file, `most` at most. Rank r of a pipeline stage is tp rank r % tp, etp
/// rank r % etp and ep rank (r / etp) % ep. The first max(tp, etp * ep) ranks hold every dense and
/// every expert shard; later ones only repeat them. Takes time like files and missing ones, however
/// large the sizes.
std::vector<catalogue::Coordinates> missing_places(const Grid& grid, std::size_t most);

/// Places `files` ("mp_rank_01_002/x.pt") in the grid. `stated` are the sizes the files' args give
/// (tp, pp, ep, etp); they tell what a second number means and how many files there have to be;
/// without them the names decide. Error(not_found) naming missing files, Error(mismatch) when names
/// contradict `stated` or each other, Error(unsupported) for grids that legacy names cannot
/// express.
Grid place_files(const std::vector<std::string>& files, const std::map<std::string, Index>& stated);

}  // namespace shardweld::formats::megatron
