// What a run warns of.
#pragma once

#include <vector>

#include "shardweld/events.hpp"

namespace shardweld::app {

using Warnings = std::vector<Warning>;

}  // namespace shardweld::app
