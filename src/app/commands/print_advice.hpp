// What `shardweld plan` advises, as text and as JSON.
// Knows forecasts and how to show them; computes none.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "advice.hpp"

namespace shardweld::app {

/// `words`: what a merge is given. Ends with the command that makes and submits a job of the
/// knee's size.
std::string advice_text(const Advice& advice, const MemoryForecast& memory,
                        const std::vector<std::string>& words);

nlohmann::ordered_json advice_json(const Advice& advice);

}  // namespace shardweld::app
