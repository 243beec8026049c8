// The order of the global ranks along the dimensions of a DeviceMesh.
// Knows the lists of ranks and the strides in its pickled spellings; nothing of placements.
// Source: torch 2.15 torch/distributed/device_mesh.py, _mesh_layout.py; 2.4 device_mesh.py.
#pragma once

#include <vector>

#include "shardweld/formats/containers/pickle.hpp"

#include "mesh.hpp"

namespace shardweld::formats::fsdp {

/// For each dimension of `known`, which was read from `mesh`: whether the ranks along it through
/// the file's rank ascend. torch's process groups sort their members, so along other dimensions
/// collectives number the parts otherwise than the mesh does. Dimensions count as ascending where
/// the file lists no ranks or keeps the mesh's order in its groups. Error(corrupt) when the layout
/// leaves the list of ranks.
std::vector<bool> ascending_dims(const PickleValue& mesh, const RankMesh& known);

}  // namespace shardweld::formats::fsdp
