// What one model_optim_rng.pt holds.
#pragma once

#include <string>

#include "formats/format.hpp"

#include "dist_state.hpp"

namespace shardweld::formats::megatron {

/// The scan of one file: tensors of `model`, `model0`, `model1`... as shards with local layer
/// numbers (at.vpp is set, the other coordinates are not); facts: vpp (number of chunks), iteration
/// and version where stated; claims: all of args, of the first file of the location only;
/// statements: what the file's state says of the save. Error(corrupt) when the file is no torch
/// file or holds no model.
StateScan scan_legacy(const Location& location, const std::string& file);

}  // namespace shardweld::formats::megatron
