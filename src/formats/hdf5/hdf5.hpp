// The HDF5 format, for the registry.
#pragma once

#include "formats/format.hpp"

namespace shardweld::formats::hdf5 {

const Format& hdf5_format();

}  // namespace shardweld::formats::hdf5
