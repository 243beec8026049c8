// How far the run was when it saved, as the state beside a model says.
// Knows the keys of that state; nothing of models. Source: megatron-core 0.16.1
// megatron/training/checkpointing.py (generate_state_dict).
#pragma once

#include <string>

#include "shardweld/catalogue/statement.hpp"
#include "shardweld/formats/containers/pickle.hpp"

namespace shardweld::formats::megatron {

/// Iteration, operations and scheduler steps, equal in all files of a save, where `root`, the
/// dictionary of `file`, has them; `save` is empty where it has none.
catalogue::Statement state_statement(const PickleValue& root, const std::string& file);

}  // namespace shardweld::formats::megatron
