// Makes HDF5 files with room for tensors. Knows the file's structure; writes no tensor bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "shardweld/hdf5/abi.hpp"

namespace shardweld::hdf5 {

/// Offsets in the file of all datasets, the text's last. Throws std::exception.
std::vector<std::uint64_t> create(const shardweld_hdf5_file& file);

}  // namespace shardweld::hdf5
