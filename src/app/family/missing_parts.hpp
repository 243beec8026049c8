// What config.json says there is, against the tensors that are written: of whatever no line of a
// recipe asks for, and so nobody misses.
#pragma once

#include "model.hpp"

namespace shardweld::app {

/// Warnings for towers, layers and experts that config.json describes and nothing stored belongs
/// to, and for code that its auto_map names and that does not lie beside it.
std::vector<Warning> broken_promises(const PreparedModel& prepared, const ModelFiles& files,
                                     const std::vector<plan::Target>& targets);

}  // namespace shardweld::app
