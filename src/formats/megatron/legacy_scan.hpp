// One legacy Megatron file (model_optim_rng.pt): its model tensors, arguments and what is left
// aside.
// Source: megatron-core 0.16.1 megatron/training/checkpointing.py (generate_state_dict).
#pragma once

#include <string>

#include "catalogue/catalogue.hpp"
#include "formats/format.hpp"

#include "dist_state.hpp"

namespace shardweld::formats::megatron {

/// Tensors of `model`, `model0`, `model1`... as shards with local layer numbers (at.vpp is set, the
/// other coordinates are not); facts: vpp (number of chunks), iteration and version where stated;
/// claims: all of args, of the first file of the location
/// only; statements: what the file's state says of the save. Error(corrupt) when the file is no
/// torch file or holds no model.
StateScan scan_legacy(const Location& location, const std::string& file);

/// Error(mismatch) with the first argument on which two files contradict each other; reads both
/// again. Without details where this rank cannot.
void require_agreeing_args(const Location& location, const std::string& a, const std::string& b);

}  // namespace shardweld::formats::megatron
