// Whether the files that become part of a model are the checkpoint's own.
#pragma once

#include "core/path.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

/// For files of `hf_directory`, which came with the checkpoint in `given`: config.json, the
/// tokenizer and others that are copied may not be links that lead out of it, for who made the
/// checkpoint would choose a file of this machine that becomes part of the model: Error(corrupt).
/// Whoever names a directory with --hf_config trusts its links. Local.
publish::Opener own_opener(const fs::path& hf_directory, const fs::path& given);

}  // namespace shardweld::app
