// What a plan costs: traffic, balance, memory, rounds.
// Pure; knows plans only.
#pragma once

#include "plan/schedule/traffic.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

struct Figures {
    plan::Traffic traffic;
    plan::Spread written;     ///< bytes, by rank
    plan::Spread read;        ///< bytes, by rank
    plan::Spread readers;     ///< ranks, by shard file
    plan::Spread writers;     ///< ranks, by output file
    Bytes network_bytes = 0;  ///< sent from rank to rank by all, replicas included
    Bytes read_over_bytes = 0;
    Index reads = 0;
    Index messages = 0;
    Bytes buffer_bytes = 0;    ///< of one rank
    Bytes metadata_bytes = 0;  ///< of one rank
    Index rounds = 0;          ///< of the busiest rank, at least
};

Figures figures_of(const plan::Plan& plan);

}  // namespace shardweld::app
