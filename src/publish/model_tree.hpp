// Whether a directory holds a model and nothing else, so that a new one may take its place. Facts:
// the names that merges, trainers and the Hub put into a model's directory.
#pragma once

#include "core/path.hpp"

namespace shardweld::publish {

/// Local. Error(target) naming the first entries of `directory` that are no part of a HuggingFace
/// model, an adapter or an earlier output, or saying that nothing in it is a model's at all (no
/// weights and no config.json of one); an empty directory and traces of runs are fine. `target` is
/// its name in the message. Error(io) when it cannot be read.
void require_model_only(const fs::path& directory, const fs::path& target);

}  // namespace shardweld::publish
