// HDF5 files. Format: docs/formats/hdf5.md.
#pragma once

#include "shardweld/outputs/format.hpp"

namespace shardweld::outputs {

/// Packed as safetensors are: one contiguous dataset at the root for each tensor, and config.json.
/// The library decides where raw data lies, so that placements are not settled. Error(unsupported)
/// for names that cannot be links at the root ("", ".", with '/' or a zero byte, or
/// kConfigDataset).
const Format& hdf5_format();

/// The dataset that holds config.json; a file's header is its text.
inline constexpr const char* kConfigDataset = "__config__";

}  // namespace shardweld::outputs
