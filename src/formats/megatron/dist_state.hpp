// What stands beside the model: in a legacy file the run's arguments and how far it was when it
// saved; in distributed checkpoints metadata.json, the common state and keys of training state.
// Sources: megatron-core 0.16.1 megatron/training/checkpointing.py (generate_state_dict);
// megatron-core 0.12.2, 0.16.1 and 0.19.2 megatron/core/dist_checkpointing/{core,serialization}.py.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/pickle.hpp"
#include "formats/format.hpp"
#include "formats/shared/file_scan.hpp"
#include "formats/shared/scalar_value.hpp"
#include "formats/typed_scan.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {
struct ObjectPlace;
}  // namespace shardweld::formats

namespace shardweld::formats::megatron {

/// A format with what all of Megatron's declare alike.
constexpr Format of_megatron(Format own) {
    own.backend = "megatron";
    own.noun = "Megatron checkpoint";
    own.option = InputOption::prefix;
    own.subject = "Megatron checkpoints";
    own.dialect = "megatron_core";
    own.pads_vocabulary = true;
    return own;
}

/// What only Megatron's formats make of a file's state.
struct FileState {
    std::optional<Index> args;  ///< stands for all args but the rank's own: equal in a save's files
    std::optional<Index> rank;  ///< of the job, as args of a legacy file state it
    std::optional<Index> sample;  ///< of a legacy file's elements (stage_content.hpp)
    std::string given;            ///< what optimizer.json beside the save says, if there is one
};
using StateScan = ScanOf<FileState>;

/// The key under which `reshape` states the arguments that say what ranks a file's place in its
/// grid is one of: a plain dictionary, since a checkpoint without a run has no `args`.
inline constexpr const char* kParallelSizes = "parallel_sizes";

/// The run's arguments, or as much of them; null: none are stated.
const PickleValue* args_in(const PickleValue& root);

/// Adds what `root`, the dictionary of `file`, says: args as claims and as FileState::args; the
/// facts iteration and version; and a statement of what is equal in all files of a save: iteration,
/// operations, scheduler steps. The warning `args_unread` where args are of a kind that is not
/// read.
void add_state(const PickleValue& root, const std::string& file, const ScalarReader& scalars,
               FileState& state, Catalogue& out);

inline constexpr const char* kBackendFile = "metadata.json";
inline constexpr const char* kCommonFile = "common.pt";
/// Since megatron-core 0.19 the common state is an object among the shards.
inline constexpr const char* kCommonState = "common_state";
/// Megatron-Bridge's, which saves no args.
inline constexpr const char* kRunConfigFile = "run_config.yaml";

/// What metadata.json names as the format of the shards; nullopt when it is some other file of that
/// name, "" when it is no JSON object.
std::optional<std::string> sharded_backend(const fs::path& path);

/// The files that scan_claims reads: run_config.yaml and the location's file of claims, where they
/// are there.
std::vector<std::string> claims_files(const Location& location);

/// Files to scan: `first`, common.pt where it is, and claims_files.
std::vector<std::string> metadata_files(const Location& location, const char* first);

/// What add_state tells of common.pt, or of the same state as an object in a shard file; a length
/// of 0 is the whole file. Also what it says of the optimizer, where its states are asked for.
StateScan scan_state(const io::InputFile& input, const ObjectPlace& place,
                     const Location& location);

/// What common.pt or a file of claims beside the shards tells.
StateScan scan_beside(const Location& location, const std::string& file);
/// Claims in verl's transformer_config.json, run_config.yaml or NeMo's model.yaml.
Catalogue scan_claims(const fs::path& path);

/// Adds facts and claims of one such place to those that go before it, of which `known` is the
/// state. Error(unsupported) where they state a layout that cannot be read, Error(mismatch) where
/// args stand in both places and contradict each other.
void add_claims(StateScan& scan, FileState& known, Catalogue& out);

/// Puts sizes that the claims state among the facts, and how adapters are kept. Chunks are of whole
/// tensors: gate and up rows are not interleaved by rank.
void add_global_facts(Catalogue& out);

/// Says what could not be compared where nothing states the run's arguments.
void note_unchecked(Catalogue& out);

/// Pattern and reason under which a key is left aside; nullopt for model tensors.
std::optional<RowName> ignored_row(std::string_view key);

/// Whether a key that is none of these names something in a module, and not what Megatron keeps for
/// itself: "decoder.final_layernorm.weight", not "iteration".
bool is_in_module(std::string_view key);

}  // namespace shardweld::formats::megatron
