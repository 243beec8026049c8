// Whether the files that become part of a model are the checkpoint's own.
// Knows links and which files are copied; nothing of what is in them.
#pragma once

#include <filesystem>

#include "shardweld/formats/format.hpp"

namespace shardweld::app {

/// Error(corrupt) when the file, by links, is none below `root`. Local.
void require_own(const std::filesystem::path& file, const std::filesystem::path& root);

/// `hf_directory` came with the checkpoint in `given`. Local. Error(corrupt) when config.json, the
/// tokenizer or another file that is copied is a link that leads out of it: who made the checkpoint
/// would choose a file of this machine that becomes part of the model. Whoever names a directory
/// with --hf_config trusts its links.
void require_own_files(const std::filesystem::path& hf_directory,
                       const std::filesystem::path& given);

/// Adds the warning links_outside when shards, or directories that hold them, are links that lead
/// out of the checkpoint in `given`. Local.
void note_links(const std::filesystem::path& given, formats::Location& location);

}  // namespace shardweld::app
