// --mesh_dim_names and --mesh_shape: the device mesh of a checkpoint, by hand.
// Knows how the two are written; nothing of what a mesh is used for.
#pragma once

#include "shardweld/formats/format.hpp"

#include "option_reader.hpp"

namespace shardweld::app {

/// Empty when neither is given. Error(usage) when only one is, or they do not fit each other.
formats::Mesh read_mesh(const OptionReader& reader);

}  // namespace shardweld::app
