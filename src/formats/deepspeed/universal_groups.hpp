// The optimizer's groups in a universal checkpoint, which lie in one file of their own.
// Source: DeepSpeed 0.19.8 deepspeed/checkpoint/ds_to_universal.py (_save_optimizer_state,
// _save_optimizer_state_stage3).
#pragma once

#include "formats/format.hpp"

#include "scan.hpp"

namespace shardweld::formats::deepspeed {

/// Adds what `zero/optimizer_state.pt` says to the scan of the first model states, whose list of
/// parameters names the groups' members. Error as by the
/// claims (optimizer_claims.hpp), which the file may have at its top and in the base optimizer's.
void add_universal_groups(const Location& location, FileScan& scan);

}  // namespace shardweld::formats::deepspeed
