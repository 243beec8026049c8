// What stands beside the model in a file or among the shards: the run's arguments, and how far it
// was when it saved.
// Knows the keys of that state; nothing of models. Source: megatron-core 0.16.1
// megatron/training/checkpointing.py (generate_state_dict).
#pragma once

#include <string>

#include "formats/containers/pickle.hpp"
#include "formats/shared/scalar_value.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::formats::megatron {

/// The fact that stands for all of a file's args but its rank's own: equal in all files of a save.
inline constexpr const char* kArgsFact = "args";

/// Of `root`, the dictionary of `file`: args as claims with the fact kArgsFact; the facts iteration
/// and version; and a statement of what is equal in all files of a save: iteration, operations,
/// scheduler steps. The warning `args_unread` where args are of a kind that is not read.
void add_state(const PickleValue& root, const std::string& file, const ScalarReader& scalars,
               catalogue::Catalogue& out);

}  // namespace shardweld::formats::megatron
