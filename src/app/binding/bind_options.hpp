// The options of binding that a prepared model comes with.
#pragma once

#include <functional>
#include <string>

#include "app/family/model.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// How the tensors of a prepared model are bound.
plan::BindOptions bind_options_of(const HeldModel& prepared);

/// Names as the reference has them; empty: as the recipe does. Both must outlive it.
std::function<std::string(const std::string&)> spelling_of(const HeldModel& prepared);

}  // namespace shardweld::app
