// One legacy Megatron file (model_optim_rng.pt): its model tensors, arguments and what is left
// aside. Knows the top-level dictionary; nothing of other ranks' files. Source: megatron-core
// 0.16.1 megatron/training/checkpointing.py (generate_state_dict).
#pragma once

#include <string>

#include "shardweld/catalogue/catalogue.hpp"
#include "shardweld/formats/format.hpp"

namespace shardweld::formats::megatron {

/// Tensors of `model`, `model0`, `model1`... as shards with local layer numbers (at.vpp is set, the
/// other coordinates are not); facts: vpp (number of chunks), iteration and version where stated;
/// claims: all of args in the first file of the location, else those that all files must agree on.
/// Error(corrupt) when the file is no torch file or holds no model.
catalogue::Catalogue scan_legacy(const Location& location, const std::string& file);

}  // namespace shardweld::formats::megatron
