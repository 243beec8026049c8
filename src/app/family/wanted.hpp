// What a model's binding is to be like.
#pragma once

#include "plan/binding.hpp"

#include "model.hpp"

namespace shardweld::app {

/// What is wanted of the tensors, as the model was prepared.
plan::Wanted wanted_of(const PreparedModel& prepared);

}  // namespace shardweld::app
