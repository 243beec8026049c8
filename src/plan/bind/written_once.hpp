// Tensors that are stored under two names and written under one.
#pragma once

#include <map>
#include <string>

#include "plan/binding.hpp"

namespace shardweld::plan {

/// Takes the targets out that are second names (of which `names` tells the first), and has them
/// compared with the first ones in full (Binding::same). One that is there alone gets the first
/// name. Those that are made of others, folded or encoded stay. Error(mismatch) where types or
/// shapes differ.
void write_once(const std::map<std::string, std::string>& names, Binding& binding);

}  // namespace shardweld::plan
