// What a directory is, for the messages of those who expected something else there.
#pragma once

#include <string>

#include "core/path.hpp"
#include "shardweld/error.hpp"

namespace shardweld::formats {

struct JobInput;

/// For who expected a finished model: Error(not_found) where a directory, or what locate finds
/// below it, is a checkpoint that is still to be merged. Local.
void refuse_unmerged(const fs::path& directory);

/// The directory that a path stands for: of a file that names a save (`latest`, `LATEST`, a
/// tracker), where that leads; else the path itself. Local. Error(not_found), Error(corrupt).
fs::path named_directory(const fs::path& given);

/// Adds to an error of a save's files in `directory` which older save of the same run is whole, if
/// one is. Local; reads the metadata of a few saves.
void add_older_save(const JobInput& request, const fs::path& directory, Error& error);

/// What to do where a path does not exist, or is the Hub's cache of a model
/// (models--Qwen--Qwen3-8B): what may be a model's name there ("Qwen/Qwen3-8B", and nothing that a
/// trainer writes) is to be downloaded; of other paths a hint says what lies where they end. Local.
std::string missing_hint(const fs::path& path);

/// The fact of a catalogue that its run's tokenizer is none whose files a model could be given.
inline constexpr const char* kForeignTokenizer = "foreign_tokenizer";
/// The fact of a catalogue that shapes only say how far the files of so many ranks reach: no file
/// states how many ranks there were, or how large a whole tensor is.
inline constexpr const char* kShardRanks = "shard_ranks";
/// The facts of a catalogue that holds LoRA factors under a framework's own names: their rank (0:
/// they have several, or none is known); that nothing else is stored; of how many tensor-parallel
/// ranks the rows of gate and up lie one behind the other in B.
inline constexpr const char* kLoraRank = "lora_rank";
inline constexpr const char* kLoraOnly = "lora_only";
inline constexpr const char* kLoraRowsByRank = "lora_rows_by_rank";
/// The fact of a catalogue whose training job had one weight for embedding and head: 1.
inline constexpr const char* kSharedEmbeddings = "shared_embeddings";

}  // namespace shardweld::formats
