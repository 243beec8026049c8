// `.metadata` of a Megatron distributed checkpoint as a catalogue of pieces still to be located.
// Knows Megatron's keys that are no model tensors; how chunks lie is DcpMetadata's.
// Source: megatron-core 0.16.1 megatron/core/dist_checkpointing/strategies/torch.py.
#pragma once

#include "shardweld/formats/format.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::megatron {

/// Model tensors with their chunks as unlocated pieces; training state and byte objects are counted
/// as ignored. Error(not_found) naming all shard files that are needed and absent,
/// Error(unsupported) for compressed shards and adapters.
catalogue::Catalogue read_index(const Location& location);

}  // namespace shardweld::formats::megatron
