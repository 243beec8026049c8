// What every rank of a plan reads, sends and writes, and how many ranks meet at each file.
// Pure; counted from operands and owners without laying out the rounds.
#pragma once

#include <vector>

#include "core/index.hpp"

namespace shardweld::plan {

struct Plan;

/// The bytes and requests of one rank.
struct RankTraffic {
    Bytes bytes_read = 0;       ///< of shard files, `bytes_read_over` included
    Bytes bytes_read_over = 0;  ///< in gaps between short runs; those of interleaved operands of
                                ///< one target count once for each of them
    Bytes bytes_copied = 0;     ///< in memory: short runs out of windows, elements out of messages
    Index reads = 0;            ///< requests, about
    Index files_read = 0;
    Bytes bytes_sent = 0;  ///< to other ranks
    Bytes bytes_received = 0;
    Index messages_sent = 0;  ///< about: one for each round and receiver
    Index messages_received = 0;
    Bytes bytes_written = 0;
    Index files_written = 0;
    Index rounds = 0;  ///< of its own part of the output, at least
};

/// The ranks and bytes that meet at one file.
struct FileTraffic {
    Index ranks = 0;  ///< that read or write it
    Bytes bytes = 0;
};

/// The traffic of a whole plan.
struct Traffic {
    std::vector<RankTraffic> ranks;
    std::vector<FileTraffic> inputs;   ///< by shard file
    std::vector<FileTraffic> outputs;  ///< by output file, headers left out
};

/// Bytes sent, received and written are exact while replicas are not sampled, and so are bytes read
/// but for the gaps. Factors of folds are left out. Takes time proportional to targets, operands
/// and ranks.
Traffic traffic_of(const Plan& plan);

/// The spread of one figure over ranks or files.
struct Spread {
    double most = 0;
    double least = 0;
    double mean = 0;
    double total = 0;

    /// The busiest's share divided by the mean; 1 when all are 0.
    [[nodiscard]] double imbalance() const { return mean > 0 ? most / mean : 1; }
};

template <typename Item, typename Number>
Spread spread_of(const std::vector<Item>& items, Number Item::*figure) {
    Spread spread;
    for (const Item& item : items) {
        const auto value = static_cast<double>(item.*figure);
        spread.least = &item == items.data() || value < spread.least ? value : spread.least;
        spread.most = value > spread.most ? value : spread.most;
        spread.total += value;
    }
    spread.mean = items.empty() ? 0 : spread.total / static_cast<double>(items.size());
    return spread;
}

}  // namespace shardweld::plan
