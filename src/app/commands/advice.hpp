// How many ranks a merge is worth: the planner's own traffic for other numbers of ranks, and what
// that takes at given rates.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "app/merge/state.hpp"
#include "app/messages/table.hpp"
#include "plan/schedule/cost.hpp"

namespace shardweld::app {

/// What storage, network and processors of an ordinary cluster are taken to do.
plan::Machine ordinary_machine();

/// A merge by so many ranks.
struct Forecast {
    int n_ranks = 1;
    int n_nodes = 1;
    plan::Strategy strategy = plan::Strategy::direct;
    double metadata_s = 0;  ///< reading metadata and planning
    plan::Timeline time;    ///< the total with starting and that
    double slow_s = 0;      ///< the total at Advice::rate
    plan::Bottleneck limit = plan::Bottleneck::ranks;
    Bytes peak = 0;  ///< memory of a rank
};

/// The forecasts of one merge at several numbers of ranks, on a machine that is supposed.
struct Advice {
    plan::Machine machine;            ///< as supposed
    plan::MetadataWork metadata;      ///< whatever the number of ranks
    std::vector<Forecast> forecasts;  ///< by number of ranks
    std::size_t knee = 0;             ///< the fewest ranks that twice as many would hardly help
    std::size_t planned = 0;          ///< that of the plan itself
    Bytes rate = 0;                   ///< that all ranks together read and write
    bool is_stated = false;           ///< by --rate, else a slow one is assumed
};

/// Launching, connecting, and the last fsync: seconds that no rank saves.
inline constexpr double kStart_s = 0.5;

/// Bytes a second of all ranks that most file systems keep up in a bad hour.
inline constexpr Bytes kSlowRate = 200'000'000;

/// What reading the metadata and planning takes of a merge that is planned.
plan::MetadataWork metadata_work(const Merge& merge);

/// Seconds until so many ranks, on nodes of so many, have done it.
double metadata_seconds(const plan::MetadataWork& work, int n_ranks, int ranks_on_node,
                        const plan::Machine& machine);

/// Local. Shares the plan among 1, 2, 4, ... ranks, until that hardly helps, and among its own, as
/// it stays. `traffic`: of the plan as it is.
Advice advise(Merge& merge, const plan::Traffic& traffic, const plan::Machine& machine,
              const plan::MetadataWork& metadata, const Job& job, const mpi::Comm& comm);

/// How many ranks to use, what they need, and the commands that start so many; keys and texts.
/// `words`: what a merge is given.
Cells answer_rows(const Advice& advice, const std::vector<std::string>& words);

/// Other numbers of ranks, and where time and memory go.
std::string advice_text(const Advice& advice, const MemoryForecast& memory);

nlohmann::ordered_json advice_json(const Advice& advice);

}  // namespace shardweld::app
