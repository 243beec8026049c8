// Checkpoints of a model's module tree, whose rows torch spreads over ranks: verl's FSDP2 rank
// files and directories of torch.distributed.checkpoint. Sources: verl 0.9.1
// utils/checkpoint/fsdp_checkpoint_manager.py, torch 2.15 FSDP2, DTensor, DCP.
#pragma once

#include "destination.hpp"
#include "placed.hpp"

namespace shardweld::reshape {

/// A file for each rank, in which every tensor has an entry, if without rows; buffers are whole and
/// plain.
Arrangement fsdp_arrangement(const Destination& destination, const models::Symbols& symbols);

/// The state dict {"model": model.state_dict()}, a file for each rank, which has what rows are its
/// own; the first one has buffers.
Arrangement dcp_arrangement(const Destination& destination, const models::Symbols& symbols);

}  // namespace shardweld::reshape
