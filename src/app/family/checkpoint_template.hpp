// An existing training checkpoint that a written one is to be like (--like): what it calls tensors,
// in which type, and where in which files it has them.
#pragma once

#include <string>
#include <vector>

#include "app/survey/checkpoint.hpp"
#include "core/path.hpp"
#include "publish/assets.hpp"

namespace shardweld::app {

/// What a file of its is called below the root, and in what is written.
std::string name_in_template(const Checkpoint& like, const fs::path& file);
/// Its directory, absolute.
fs::path absolute_directory(const Checkpoint& like);

/// Error(unsupported) where it is no template: of a format that is not written. Pure.
void require_template(const Checkpoint& like);

/// Error(mismatch) where files of its directory may hold more weights of its model than those that
/// were read: they would lie beside the written ones, and are others. Pure.
void require_no_other_weights(const Checkpoint& like);

/// The files that are copied whole, as they are: all of the checkpoint but those of tensors,
/// HuggingFace's, and a list of sums. Local. Error(io).
std::vector<publish::Asset> assets_of(const Checkpoint& like);

}  // namespace shardweld::app
