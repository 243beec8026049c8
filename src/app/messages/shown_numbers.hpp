// Numbers as people read them: counts, durations, shares, bars.
// Knows numbers only.
#pragma once

#include <string>

#include "core/index.hpp"

namespace shardweld::app {

/// "8.03 B", "1.24 M", "640": in the units of model cards.
std::string human_count(Index count);

/// "0.05 s", "12 s", "3.4 min", "2.1 h".
std::string duration_text(double seconds);

/// "12.5 %"; of nothing: "0.0 %".
std::string percent_text(double part, double all);

/// Characters for a share, `widest` for all of it; at least one for anything.
std::string bar(double part, double all, std::size_t widest = 24);

}  // namespace shardweld::app
