// The scan of one file of a DeepSpeed checkpoint: what it hands to those who join all files.
// Source: DeepSpeed 0.19.8 deepspeed/runtime/engine.py (_save_checkpoint), zero/stage_1_and_2.py,
// zero/stage3.py and bf16_optimizer.py (state_dict), utils/zero_to_fp32.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/format.hpp"
#include "formats/typed_scan.hpp"

#include "file_names.hpp"
#include "flat_groups.hpp"

namespace shardweld::formats::deepspeed {

// Numbers that files state, by the names that messages and reports give them.
inline constexpr const char* kStage = "zero_stage";
inline constexpr const char* kDataRanks = "dp_world_size";
inline constexpr const char* kModelRanks = "mp_world_size";
inline constexpr const char* kTensorRanks = "tp_degree";

/// DeepSpeed pads a group to a multiple of twice its ranks (nccl_start_alignment_factor); with
/// parameter_alignment also of 16 bytes.
inline constexpr Index kSlackOfRank = 16;
/// The most elements that a group is padded with; of more ranks than 65,536 none is believed.
inline Index most_padding(Index n_ranks) {
    constexpr Index kMostRanks = 1 << 16;
    return std::clamp<Index>(n_ranks, 1, kMostRanks) * kSlackOfRank;
}

/// A parameter of a flat group.
struct FlatParameter {
    std::string name;
    DType dtype = DType::f32;  ///< in the module
    std::vector<Index> shape;  ///< on this rank
};

/// The ways in which tensor-parallel parts make a whole.
enum class JoinKind { replicated, rows, columns, boxes };

/// How the parts of a tensor on tensor-parallel ranks are joined.
struct JoinRule {
    JoinKind kind = JoinKind::replicated;
    // Where the kind is boxes:
    std::vector<Index> shape;        ///< of the whole tensor
    std::vector<Index> local_shape;  ///< of this rank's part
    std::vector<LocalBox> boxes;     ///< where the part's elements belong
};

/// Local shapes by parameter.
using Shapes = std::map<std::string, std::vector<Index>>;

/// The rule of each of `shapes` that `info`, a file's universal_checkpoint_info, speaks of; of
/// boxes those of tensor-parallel rank `rank`. Error(corrupt) for what contradicts the shapes,
/// Error(unsupported) for rules that are not known. Source: DeepSpeed 0.19.8
/// deepspeed/checkpoint/constants.py, ds_to_universal.py (merge_tp_slices), module_inject/autotp.
std::map<std::string, JoinRule> rules_in(const PickleValue& info, Index rank, const Shapes& shapes);

/// What a file says of a flat group, of which it holds this rank's partition.
struct FlatGroup {
    std::optional<Index> n_ranks;       ///< among which the group is divided
    std::map<std::size_t, Index> gaps;  ///< by parameter of the group: elements to skip behind it
    std::optional<Index> end;       ///< behind the last of this rank's elements that is not zero
    std::optional<Index> settings;  ///< which of the optimizer's groups it is in
};

/// Beside a catalogue of the file: its whole tensors, and flat partitions as shards in the order
/// of their groups (at.fsdp and at.tp are the data- and the model-parallel rank).
struct FileContent {
    std::vector<FlatParameter> parameters;       ///< in the order of the flat groups
    std::vector<std::size_t> group_sizes;        ///< how many parameters each flat group has
    std::map<std::string, JoinRule> rules;       ///< by name of parameter or whole tensor
    std::map<std::string, std::string> aliases;  ///< other names of parameters
    std::vector<FlatGroup> groups;               ///< of the shards
    std::optional<Index> stage;                  ///< of ZeRO
    std::optional<Index> n_data_ranks;
    std::optional<Index> n_model_ranks;
    std::optional<Index> n_tensor_ranks;
    bool is_data_first = false;  ///< use_data_before_expert_parallelism
    std::string given;           ///< what optimizer.json beside the save says, if there is one

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.parameters, self.group_sizes, self.rules, self.aliases, self.groups,
                        self.stage, self.n_data_ranks, self.n_model_ranks, self.n_tensor_ranks,
                        self.is_data_first, self.given);
    };
};
using FileScan = ScanOf<FileContent>;

/// Which weights of a module are wanted of a file of model states.
enum class WeightSelection {
    all,      ///< as they are
    rest,     ///< those that are in no flat group; of these the parameters' shapes
    buffers,  ///< only these, and the parameters' shapes
};
/// The parts of one file that a scan reads.
struct ScanOptions {
    WeightSelection selection = WeightSelection::all;
    bool in_fp32 = false;           ///< narrower floats, buffers apart, are to be written so
    bool names_parameters = false;  ///< parameters of flat groups; else another file does
    bool has_scheduler = false;     ///< the learning rate's scheduler is wanted, too
    bool keeps_weights = false;     ///< also of parameters in flat groups, as they are
};

/// *_model_states.pt: the module's tensors, the shapes behind flat groups, joining rules.
FileScan scan_model_states(const Location& location, const std::string& file, const FileName& name,
                           const ScanOptions& options);

/// *_optim_states.pt: the flat partitions of fp32 weights.
FileScan scan_partition(const Location& location, const std::string& file, const FileName& name);

/// Why weights that the scan kept are left aside.
inline constexpr const char* kCopies =
    "copies of weights that are taken from the optimizer's partitions";
/// What to do where the masters are not those of the module's weights.
inline constexpr const char* kTakeModel =
    "--weights model takes the module's, with which the run went on; or give a save whose weights "
    "and optimizer are of one step";

/// Where the weights are taken from.
enum class Weights {
    model,    ///< the module's tensors
    master,   ///< flat partitions, in fp32
    rounded,  ///< flat partitions, to be written in the module's dtype
};

/// Tensors of all ranks' scans. Error(not_found) naming files and what is lost with them,
/// Error(mismatch) for files that contradict each other, Error(unsupported) for parts that nothing
/// says how to join. Pure.
void join_files(std::vector<FileScan> scans, Weights weights, Catalogue& out);
/// Tensors of all ranks' scans, and the optimizer's states as they are divided: those in the scans,
/// and the fp32 weights where `weights` are those of the module. Error(mismatch) for several steps
/// and for groups that are not the same.
void join_with_states(const std::vector<FileScan>& scans, Weights weights, Catalogue& out);

}  // namespace shardweld::formats::deepspeed
