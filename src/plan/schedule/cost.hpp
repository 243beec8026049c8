// What a plan's traffic takes on a machine that is described, not measured. Pure arithmetic on
// figures.
#pragma once

#include "traffic.hpp"

namespace shardweld::plan {

/// One rank's speed while all ranks are at work. Rates are bytes per second, 0: takes no time.
struct Rates {
    double read_latency_s = 0;  ///< of one request, whatever its size
    double read_bytes_s = 0;
    double message_latency_s = 0;  ///< of one message, whatever its size
    double exchange_bytes_s = 0;   ///< sent, while as much comes in
    double copy_bytes_s = 0;       ///< in memory
    double write_bytes_s = 0;
};

/// What ranks share, for machines that nobody can measure here. 0: no limit.
struct Shared {
    int ranks_per_node = 1;  ///< consecutive ranks
    double node_read_bytes_s = 0;
    double node_write_bytes_s = 0;
    double node_exchange_bytes_s = 0;  ///< of what leaves a node
    double system_read_bytes_s = 0;    ///< all nodes together
    double system_write_bytes_s = 0;
    double system_reads_s = 0;  ///< requests a second, all nodes together
};

/// A machine that a forecast is for.
struct Machine {
    Rates rank;
    Shared shared;
};

/// What comes before tensors move.
struct MetadataWork {
    double reads = 0;       ///< and opens, of all ranks that read, which share them evenly
    double in_flight = 1;   ///< of one of these
    double planning_s = 0;  ///< which every rank needs, whatever their number
};

/// Seconds of it: reads = requests * latency, shared by so many readers and what each has in
/// flight, but no more of them a second than the system answers; then planning.
double metadata_seconds(const MetadataWork& work, const Machine& machine, int n_readers);

/// Seconds of the phases of a run. A phase lasts as long as the busiest rank, node or system needs.
struct Timeline {
    double read_s = 0;
    double exchange_s = 0;
    double copy_s = 0;
    double write_s = 0;
    double total_s = 0;
};

/// Nothing overlaps: reading = requests * latency + bytes / rate, exchange = messages * latency +
/// the greater of sent and received / rate, copying and writing = bytes / rate.
/// In lockstep each phase waits for its slowest rank: the total is the sum of the phases. Ranks
/// that run freely do not wait: the total is the greater of the slowest rank's own sum and of what
/// nodes and system need in all. What a rank sends is assumed to spread evenly over the others.
Timeline timeline_of(const Traffic& traffic, const Machine& machine, bool is_lockstep);

/// What a run waits for.
enum class Bottleneck {
    ranks,   ///< their own work
    nodes,   ///< what the ranks of a node share
    system,  ///< what all share
};

/// Which of them alone would take the longest.
Bottleneck bottleneck_of(const Traffic& traffic, const Machine& machine, bool is_lockstep);

/// "ranks", "nodes", "file system".
const char* name_of(Bottleneck limit);

}  // namespace shardweld::plan
