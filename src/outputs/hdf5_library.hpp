// The HDF5 library that outputs are made with.
#pragma once

#include <string>

namespace shardweld::outputs {

/// "1.10.8", or "none" when this build or this machine has none. Local; loads it.
std::string hdf5_library();

}  // namespace shardweld::outputs
