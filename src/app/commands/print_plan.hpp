// `shardweld plan`: what a merge would do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/runtime/memory.hpp"
#include "app/settings/job.hpp"
#include "mpi/comm.hpp"
#include "plan/schedule/traffic.hpp"

#include "advice.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// What a plan costs: traffic, balance, memory, rounds.
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

/// Everything that is shown of a planned merge.
struct PlannedMerge {
    std::string input;   ///< directory
    std::string format;  ///< of the checkpoint
    std::string recipe;
    std::vector<catalogue::File> files;
    plan::Plan plan;
    std::optional<plan::Plan> factors;  ///< that are folded
    Figures figures;                    ///< of the plan
    plan::Ledger ledger;
    std::vector<Warning> warnings;
    std::vector<std::string> options;  ///< those that the output follows from (way_of)
    std::vector<std::string> trace;    ///< --trace
    Index n_reads = 0;                 ///< calls that read metadata for this plan
    double metadata_s = 0;             ///< reading metadata and planning, where the merge runs
    MemoryForecast memory;
    /// With a target: whose quotas were looked at there; empty: they are unknown.
    std::optional<std::vector<std::string>> quotas;
    std::string target;               ///< "" if none is given
    std::optional<Bytes> bytes_free;  ///< where the target will be, if one is given
    bool has_room = true;             ///< there, as far as it was looked at
    std::optional<Advice> advice;     ///< none for --inputs
    std::vector<std::string> words;   ///< what the merge is given; for --json with absolute paths
};

/// The answer and the ranks first. Many files are a line, unless each is asked for.
std::string plan_text(const PlannedMerge& merge, bool is_each_shown);

/// Collective: the ranks that are here go a merge's way up to the plan, for --ranks ranks that all
/// see the checkpoint. The same on all, but for what each has measured of its memory.
PlannedMerge plan_merge(mpi::Comm& comm, const Job& job);

}  // namespace shardweld::app
