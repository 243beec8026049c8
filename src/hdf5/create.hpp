// Makes HDF5 files with room for tensors, in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "abi.hpp"
#include "pages.hpp"

namespace shardweld::hdf5 {

struct FileStructure {
    std::vector<std::uint64_t> offsets;  ///< of all datasets in the file, the text's last
    Pages pages;                         ///< everything but tensors' bytes
};

/// Throws std::bad_alloc, or std::exception with the library's reason.
FileStructure create(const shardweld_hdf5_file& file);

}  // namespace shardweld::hdf5
