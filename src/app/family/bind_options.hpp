// The options of binding that a prepared model comes with.
#pragma once

#include <functional>
#include <string>

#include "plan/binding.hpp"

#include "model.hpp"
#include "model_files.hpp"

namespace shardweld::app {

/// How the tensors of a prepared model are bound.
plan::BindOptions bind_options_of(const HeldModel& prepared);

/// Names as the reference has them; empty: as the recipe does. Both must outlive it.
std::function<std::string(const std::string&)> spelling_of(const HeldModel& prepared);

}  // namespace shardweld::app
