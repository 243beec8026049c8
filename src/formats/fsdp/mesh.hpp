// torch's DeviceMesh as a file holds it.
// Knows its pickled spellings of torch 2.2 to 2.15; nothing of placements.
// Source: torch/distributed/device_mesh.py and _mesh_layout.py of these versions.
#pragma once

#include <string>
#include <vector>

#include "formats/containers/pickle.hpp"
#include "formats/containers/torch_file.hpp"

#include "rank_mesh.hpp"

namespace shardweld::formats::fsdp {

/// The DeviceMesh in a file. Error(corrupt) when it is malformed or its rank is outside of it.
RankMesh read_mesh(const TorchFile& file, const PickleValue& mesh);

/// The names of a DeviceMesh's dimensions; empty when it has none.
std::vector<std::string> mesh_dim_names(const PickleValue& mesh);

}  // namespace shardweld::formats::fsdp
