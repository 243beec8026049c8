// What the scan of one file hands over to those who join all files, as a catalogue: these are the
// names for it.
//   tensors without placement: whole tensors with their piece
//   tensors placed kParameter: in the order of the flat groups, shape and 16-bit dtype, no pieces
//   tensors placed kRule...:   how the tensor of that name is joined over tensor-parallel ranks
//   shards:                    flat partitions; their names are the groups' numbers, at.fsdp and
//                              at.tp the data- and model-parallel rank
//   claims:                    shared parameters: alias -> canonical name; kFirst...
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::formats::deepspeed {

inline constexpr const char* kParameter = "parameter";
/// Pieces are boxes: their patches' axes are of the global tensor, addresses those of the rank's
/// local one, whose extents are the last piece's. Shape: the global one.
inline constexpr const char* kRuleBoxes = "boxes";
inline constexpr const char* kRuleReplicated = "replicated";
inline constexpr const char* kRuleRows = "axis 0";
inline constexpr const char* kRuleColumns = "axis 1";

// Facts.
inline constexpr const char* kStage = "zero_stage";
inline constexpr const char* kDataRanks = "dp_world_size";
inline constexpr const char* kModelRanks = "mp_world_size";
inline constexpr const char* kTensorRanks = "tp_degree";
/// Parameters of a flat group.
inline std::string count_key(std::size_t group) {
    return "parameters of group " + std::to_string(group);
}
/// Ranks over which a flat group is partitioned.
inline std::string ranks_key(std::size_t group) {
    return "ranks of group " + std::to_string(group);
}
/// Elements to skip behind a parameter.
inline std::string gap_key(std::size_t group, std::size_t parameter) {
    return "gap " + std::to_string(group) + " " + std::to_string(parameter);
}

}  // namespace shardweld::formats::deepspeed
