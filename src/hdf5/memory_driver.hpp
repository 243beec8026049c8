// HDF5's way to a file that lies in memory (a "virtual file driver"). Its own one, H5FD_CORE, holds
// a file up to its last byte; here tensors' bytes, which are never written, take no memory.
#pragma once

#include "fault.hpp"
#include "pages.hpp"

namespace shardweld::hdf5 {

/// For as long as property lists of it are used.
Handle memory_driver();

/// Files made with this property list lie in `pages`, which outlives them; one file each.
void use_memory(hid_t access_list, const Handle& driver, Pages& pages);

}  // namespace shardweld::hdf5
