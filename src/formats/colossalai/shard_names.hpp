// What the names of ColossalAI's files say, by path_rules.txt.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/index.hpp"

namespace shardweld::formats::colossalai {

/// Where the indices of pipeline stages lie until all are one.
inline constexpr std::string_view kStageIndices = "tmp_index_files";

/// "pytorch_model-00001.bin", "model-stage-00001-shard-00002.safetensors", with experts
/// "model-stage-00001-00002-shard-00001.safetensors"; or the index of a stage,
/// "model.safetensors.index-stage-00001.json".
struct StagedName {
    std::string model;            ///< "model.safetensors": file of an unsharded model of its kind
    std::string stage;            ///< "00001", "00001-00002"; "" without pipeline
    std::optional<Index> number;  ///< of the stage
};

/// nullopt for all other names, such as "model-00001-of-00002.safetensors".
std::optional<StagedName> parse_shard(std::string_view file);
std::optional<StagedName> parse_stage_index(std::string_view file);

/// "model.safetensors.index-stage-00001.json".
std::string stage_index_name(const StagedName& name);

}  // namespace shardweld::formats::colossalai
