// Which rank files make up an FSDP checkpoint of verl or accelerate. Opens no rank file.
// Sources: verl 0.9.1 verl/utils/checkpoint/fsdp_checkpoint_manager.py; accelerate 1.15
// utils/fsdp_utils.py (save_fsdp_model: LOCAL_STATE_DICT, and use_dcp=False).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/format.hpp"

namespace shardweld::formats::fsdp {

/// verl's model_world_size_{world}_rank_{rank}.pt, or accelerate's {stem}_rank{rank}.bin, whose
/// names tell no world size.
struct RankFile {
    Index world = 0;
    Index rank = 0;
    std::string stem;  ///< "pytorch_model_fsdp_0_rank{rank}.bin"; "" of verl's
};

std::string file_name(const RankFile& file);
/// nullopt for any other name. The world size of accelerate's is 0.
std::optional<RankFile> parse_file_name(std::string_view name);

/// The file of `what`, "optim" or "extra_state", that lies beside a model file of verl's.
std::string file_beside(const std::string& model_file, std::string_view what);

/// fsdp_config.json, as far as it is needed.
struct FsdpConfig {
    Index world_size = 0;
    std::optional<Index> version;  ///< 1 or 2
};
/// Error(corrupt) naming the file, and the position where its text ends or goes wrong.
FsdpConfig read_fsdp_config(const fs::path& file);

/// The rank files of one world size among `names`, by rank: the world size of `config`, else the
/// only one there is. Error(mismatch) when fsdp_config.json
/// names another one than the files, or the files are of several and it is missing.
std::vector<std::string> choose_rank_files(const std::vector<std::string>& names,
                                           const std::optional<FsdpConfig>& config);

/// accelerate's rank files among `names`, by rank. Error(mismatch) when they are of several models.
std::vector<std::string> choose_accelerate_files(const std::vector<std::string>& names);

/// World and rank of each of `names`, all of one world size; that of accelerate's goes up to the
/// highest rank. Error(mismatch) when they are not, or when a rank is outside of the world or there
/// twice.
std::vector<RankFile> ranks_of(const std::vector<std::string>& names);

/// The one of ranks_of(names) that `name` is; `names` are sorted by rank.
RankFile rank_among(const std::vector<std::string>& names, const std::string& name);

/// The names of the ranks' files that are not among `present`.
std::vector<std::string> missing_files(const std::vector<RankFile>& present);

}  // namespace shardweld::formats::fsdp
