// The pickle of a DTensor, as FSDP2's state dictionaries hold them.
// Source: torch 2.15 and 2.6 torch/distributed/tensor/_api.py, torch/distributed/device_mesh.py,
// torch/distributed/_mesh_layout.py, as found in saved files.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "outputs/training.hpp"

#include "pickle_writer.hpp"

namespace shardweld::outputs::torch {

/// How a pickle gets the tensors of a DTensor.
struct DTensorParts {
    std::function<void()> put_local;  ///< of this rank
    /// A tensor of int32 of this shape and content: the mesh's ranks, once in a pickle.
    std::function<void(const std::vector<Index>& shape, std::string content)> put_ranks;
};

/// The bytes that a pickled mesh takes for what only this rank has: its number and coordinates.
std::size_t place_size(const DeviceMesh& mesh, Index rank);

/// A rank's part of a tensor of shape `whole` whose rows the mesh's last dim cuts; dims before it
/// repeat.
void put_dtensor(PickleWriter& out, DType dtype, std::span<const Index> whole,
                 const DeviceMesh& mesh, Index rank, const DTensorParts& parts);

}  // namespace shardweld::outputs::torch
