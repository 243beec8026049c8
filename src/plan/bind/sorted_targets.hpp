// The order of a binding's targets, which is that of their names.
#pragma once

#include <functional>
#include <string>

#include "plan/binding.hpp"

namespace shardweld::plan {

/// Puts targets in natural order of their names. Error(mismatch) where two have one name.
void sort_targets(Binding& binding);

/// Gives targets the names that `spelled` makes of theirs, if it is not empty, and sorts them.
void spell_targets(Binding& binding, const std::function<std::string(const std::string&)>& spelled);

}  // namespace shardweld::plan
