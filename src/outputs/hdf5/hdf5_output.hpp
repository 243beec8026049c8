// HDF5 files. Format: docs/formats/hdf5.md.
#pragma once

#include <span>
#include <vector>

#include "outputs/format.hpp"
#include "outputs/output.hpp"

namespace shardweld::outputs {

/// Packed as safetensors are: one contiguous dataset at the root for each tensor, and config.json.
/// The library decides where raw data lies, so that placements are not settled. Error(unsupported)
/// for names that cannot be links at the root ("", ".", with '/' or a zero byte, or
/// kConfigDataset).
const Format& hdf5_format();

/// `offsets`: of the file's tensors in its order, then of the header. Error(io) unless they all lie
/// inside the file and apart from each other.
void settle(Placement& placement, std::size_t file, const std::vector<OutputTensor>& tensors,
            std::span<const Bytes> offsets, Bytes file_size);

}  // namespace shardweld::outputs
