// Element types: how a file stores each. HDF5 1.10 has neither bfloat16 nor 8-bit floats, and tools
// misread such types when they are built by hand; they are stored as unsigned integers of their
// size, and an attribute tells what they are.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fault.hpp"

namespace shardweld::hdf5 {

/// Attribute of every dataset: the safetensors name of its dtype.
inline constexpr const char* kDtypeAttribute = "shardweld_dtype";

/// The stored types, little-endian.
class Types {
  public:
    Types();

    /// The type that stores a dtype given by its safetensors name. Throws for unknown names.
    [[nodiscard]] hid_t for_dtype(std::string_view dtype) const;

    /// The safetensors name of a stored type ("U16", "F16", "C64"...), "BOOL" for h5py's booleans,
    /// "" for every other type.
    [[nodiscard]] std::string name_of(hid_t type) const;

  private:
    std::vector<std::pair<std::string_view, Handle>> entries_;  ///< by safetensors' names
};

}  // namespace shardweld::hdf5
