// What a directory is, for the messages of those who expected something else there.
#pragma once

#include <string>

#include "shardweld/core/path.hpp"

namespace shardweld::formats {

/// For who expected a finished model: Error(not_found) where a directory, or what locate finds
/// below it, is a checkpoint that is still to be merged. Local.
void refuse_unmerged(const fs::path& directory);

/// What to do where a path that does not exist may be a model's name on the Hub ("Qwen/Qwen3-8B"):
/// a hint; "" for other paths. Local.
std::string hub_hint(const fs::path& path);

/// The fact of a catalogue that its run's tokenizer is none whose files a model could be given.
inline constexpr const char* kForeignTokenizer = "foreign_tokenizer";

}  // namespace shardweld::formats
