// The options of binding that a prepared model comes with.
#pragma once

#include "plan/binding.hpp"

#include "model.hpp"

namespace shardweld::app {

/// How the tensors of a prepared model are bound.
plan::BindOptions bind_options_of(const PreparedModel& prepared);

}  // namespace shardweld::app
