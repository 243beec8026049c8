// Whether the files that become part of a model are the checkpoint's own.
#pragma once

#include "core/path.hpp"
#include "formats/format.hpp"
#include "publish/assets.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::app {

/// Error(corrupt) when the file, by links, is none below `root`. Local.
void require_own(const fs::path& file, const fs::path& root);

/// For files of `hf_directory`, which came with the checkpoint in `given`: config.json, the
/// tokenizer and others that are copied may not be links that lead out of it, for who made the
/// checkpoint would choose a file of this machine that becomes part of the model. Whoever names a
/// directory with --hf_config trusts its links.
publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given);

/// The code of note_links' warning.
inline constexpr const char* kLinksOutside = "links_outside";

/// Adds this warning when shards, or directories that hold them, are links that lead
/// out of the checkpoint in `given`. Local.
void note_links(const fs::path& given, formats::Location& location);

}  // namespace shardweld::app
