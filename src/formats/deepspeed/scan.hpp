// The scan of one file of a DeepSpeed checkpoint. Knows the dictionaries that DeepSpeed saves;
// nothing of other files. Source: DeepSpeed 0.19.8 deepspeed/runtime/engine.py (_save_checkpoint),
// zero/stage_1_and_2.py, zero/stage3.py and bf16_optimizer.py (state_dict), utils/zero_to_fp32.py.
// It hands a catalogue to those who join all files:
//   tensors without placement: whole tensors with their piece
//   tensors placed kParameter: in the order of the flat groups, shape and 16-bit dtype, no pieces
//   tensors placed kRule...:   how the tensor of that name is joined over tensor-parallel ranks
//   shards:                    flat partitions; their names are the groups' numbers, at.fsdp and
//                              at.tp the data- and model-parallel rank
//   claims:                    shared parameters: alias -> canonical name
#pragma once

#include <string>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "file_names.hpp"

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
inline constexpr const char* kDataFirst = "use_data_before_expert_parallelism";
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

/// A rank's elements of a flat group up to the last that is not zero.
inline std::string end_key(std::size_t group) {
    return "end of group " + std::to_string(group);
}
/// DeepSpeed pads a group to a multiple of twice its ranks (nccl_start_alignment_factor); with
/// parameter_alignment also of 16 bytes.
inline constexpr Index kSlackOfRank = 16;

/// Which weights of a module are wanted of a file of model states.
enum class Wanted {
    all,      ///< as they are
    rest,     ///< those that are in no flat group; of these the parameters' shapes
    buffers,  ///< only these, and the parameters' shapes
};
struct Wish {
    Wanted wanted = Wanted::all;
    bool in_fp32 = false;           ///< narrower floats, buffers apart, are to be written so
    bool names_parameters = false;  ///< else another file of its model-parallel rank does
};

/// *_model_states.pt: the module's tensors, the shapes behind flat groups, joining rules.
catalogue::Catalogue scan_model_states(const Location& location, const std::string& file,
                                       const FileName& name, const Wish& wish);

/// *_optim_states.pt: the flat partitions of fp32 weights.
catalogue::Catalogue scan_partition(const Location& location, const std::string& file,
                                    const FileName& name);

/// What the file's name and that of the archive in it say.
void state_names(const std::string& file, const FileName& name, const std::string& archive,
                 catalogue::Catalogue& out);

}  // namespace shardweld::formats::deepspeed
