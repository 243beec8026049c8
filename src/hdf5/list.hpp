// What an HDF5 file holds at its root, as the values of include/shardweld/hdf5/listing.hpp.
// Tells what it finds and judges nothing; follows no link and reads no dataset.
#pragma once

#include "listing.hpp"

namespace shardweld::hdf5 {

/// Throws std::exception when the library cannot read the file.
void list(const char* path, ListingWriter& out);

}  // namespace shardweld::hdf5
