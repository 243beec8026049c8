// What a plan costs: balance, memory, messages, rounds.
// Pure; knows plans only.
#pragma once

#include <vector>

#include "shardweld/plan/plan.hpp"

namespace shardweld::app {

struct Figures {
    std::vector<Bytes> written;  ///< by rank
    Bytes least = 0;             ///< of these
    Bytes busiest = 0;
    double mean = 0;
    Bytes buffer_bytes = 0;    ///< of one rank
    Bytes metadata_bytes = 0;  ///< of one rank
    Bytes network_bytes = 0;   ///< sent from rank to rank by all, replicas included
    Index rounds = 0;          ///< of the busiest rank
};

/// Computed as the run itself does it; takes time like the rounds of one rank.
Figures figures_of(const plan::Plan& plan);

/// How many times the mean the busiest rank writes; 1 for an empty output.
double imbalance(const Figures& figures);

}  // namespace shardweld::app
