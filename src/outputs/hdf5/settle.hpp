// Where the HDF5 library put things, in the place of estimates. Pure; believes no library.
#pragma once

#include <span>
#include <vector>

#include "shardweld/outputs/output.hpp"

namespace shardweld::outputs {

/// `offsets`: of the file's tensors in its order, then of the header. Error(io) unless they all lie
/// inside the file and apart from each other.
void settle(Placement& placement, std::size_t file, const std::vector<OutputTensor>& tensors,
            std::span<const Bytes> offsets, Bytes file_size);

}  // namespace shardweld::outputs
