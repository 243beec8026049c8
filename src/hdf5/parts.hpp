// The parts of the program that call libhdf5: their files' names and what to do where they are not.
#pragma once

namespace shardweld::hdf5 {

inline constexpr const char* kModuleFile = "shardweld_hdf5.so";
inline constexpr const char* kListerFile = "shardweld_hdf5_list";
inline constexpr const char* kRemedy =
    "this build has no HDF5: build shardweld with -DSHARDWELD_HDF5=ON where HDF5 is "
    "installed (Debian: libhdf5-openmpi-dev), a wheel with scripts/test-wheel.sh";

}  // namespace shardweld::hdf5
