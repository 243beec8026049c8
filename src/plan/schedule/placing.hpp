// In which file each target lies.
// Knows targets and output formats; nothing of owners or ranks.
#pragma once

#include <vector>

#include "shardweld/plan/choice.hpp"

namespace shardweld::plan {

/// The model's files as the choice's format packs them, and behind them those that some targets ask
/// for by name (Target::file). Targets of one file stand together.
outputs::Placement place(const std::vector<Target>& targets,
                         const std::vector<outputs::OutputTensor>& tensors,
                         const PlanChoice& choice);

}  // namespace shardweld::plan
