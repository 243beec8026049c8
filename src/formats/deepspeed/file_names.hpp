// What the names of DeepSpeed's files say, by path_rules.txt.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/index.hpp"

namespace shardweld::formats::deepspeed {

/// The kinds of file that DeepSpeed saves, by their names.
enum class ZeroFile {
    model,             ///< mp_rank_00_model_states.pt: ZeRO 0 to 2
    model_part,        ///< zero_pp_rank_0_mp_rank_00_model_states.pt: ZeRO-3
    layer,             ///< layer_03-model_states.pt, layer_03-model_01-model_states.pt
    expert,            ///< layer_0_expert_5_mp_rank_00_model_states.pt
    partition,         ///< [bf16_]zero_pp_rank_0_mp_rank_00_optim_states.pt
    expert_optimizer,  ///< expp_rank_0_mp_rank_00_optim_states.pt
};

/// The name of a file that DeepSpeed saved, taken apart.
struct FileName {
    ZeroFile kind = ZeroFile::model;
    Index mp = 0;      ///< model-parallel rank: tensor and pipeline; of a layer tensor alone
    Index dp = 0;      ///< data-parallel rank; expert-parallel of expert_optimizer
    Index number = 0;  ///< of a layer, or of an expert
    Index layer = 0;   ///< of an expert: counted among layers with experts
    std::string_view pattern;  ///< of path_rules.txt
};

/// nullopt when `name` is none of DeepSpeed's.
std::optional<FileName> parse_file_name(std::string_view name);

/// The partition of `dp` that lies beside the one called so.
std::string partition_name(const FileName& like, Index dp);
/// The model states of one rank of ZeRO-3.
std::string states_name(Index mp, Index dp);

}  // namespace shardweld::formats::deepspeed
