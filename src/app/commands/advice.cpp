#include "advice.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/survey/in_turns.hpp"
#include "core/text.hpp"
#include "process/process.hpp"

namespace shardweld::app {

namespace {

constexpr double kGb = 1e9;
constexpr int kMostAdvised = 512;
// Twice the ranks are worth it if they save a fifth of the time, and not just a moment.
constexpr double kWorth = 0.8;
constexpr double kWorthSeconds = 1;

std::string text_of(double bytes_s) {
    return human_bytes(static_cast<Bytes>(bytes_s)) + "/s";
}

std::string text_of(const plan::Machine& machine) {
    const plan::Rates& rank = machine.rank;
    const plan::Shared& shared = machine.shared;
    return "a rank reads " + text_of(rank.read_bytes_s) + " and writes " +
           text_of(rank.write_bytes_s) + ", a node " + text_of(shared.node_read_bytes_s) + " and " +
           text_of(shared.node_write_bytes_s) + ", the file system " +
           text_of(shared.system_read_bytes_s) + " and " + text_of(shared.system_write_bytes_s);
}

/// Of the plan as it is now shared, with what the advice supposes.
Forecast forecast(const Merge& merge, const plan::Traffic& traffic, const Advice& advice,
                  const mpi::Comm& comm) {
    const plan::Plan& plan = merge.first().plan;
    const plan::Machine& machine = advice.machine;
    const int per_node = machine.shared.ranks_per_node;
    Forecast made;
    made.n_ranks = plan.n_ranks();
    made.n_nodes = (made.n_ranks + per_node - 1) / per_node;
    made.strategy = plan.strategy;
    made.metadata_s =
        metadata_seconds(advice.metadata, made.n_ranks, std::min(made.n_ranks, per_node), machine);
    made.time = plan::timeline_of(traffic, machine, plan.is_lockstep);
    Bytes moved = 0;
    for (const plan::RankTraffic& rank : traffic.ranks) {
        moved += rank.bytes_read + rank.bytes_written;
    }
    made.time.total_s += kStart_s + made.metadata_s;
    made.slow_s =
        kStart_s + made.metadata_s + static_cast<double>(moved) / static_cast<double>(advice.rate);
    made.limit = plan::bottleneck_of(traffic, machine, plan.is_lockstep);
    made.peak = merge.forecast(comm, per_node).peak();
    return made;
}

/// What planning takes by the number of pieces: 4 to 24 us each were measured
/// (docs/measurements/scaling.md).
double planning_seconds(const plan::Plan& plan) {
    constexpr double kPiece_s = 8e-6;
    const std::size_t n_pieces = add_up(plan.targets, [](const plan::Target& target) {
        return target.operands.size() + target.replicas.size();
    });
    return static_cast<double>(n_pieces) * kPiece_s;
}

/// Large plans take seconds each: then fewer are made.
int step_for(const plan::Plan& plan) {
    constexpr std::size_t kLarge = 50'000;
    std::size_t n_operands = 0;
    const bool is_large = std::ranges::any_of(plan.targets, [&](const plan::Target& target) {
        n_operands += target.operands.size();
        return n_operands > kLarge;
    });
    return is_large ? 4 : 2;
}

bool is_worth(const Forecast& more, const Forecast& fewer) {
    return more.time.total_s <= kWorth * fewer.time.total_s &&
           fewer.time.total_s - more.time.total_s >= kWorthSeconds;
}

/// Until two steps in a row are not worth it. Leaves the plan to the last of them. `own`: of the
/// number of ranks that is planned, which is not worked out again.
std::vector<Forecast> sweep(Merge& merge, const Forecast& own, const Advice& advice,
                            const plan::JobPlan& choice, const mpi::Comm& comm) {
    const std::vector<catalogue::File>& files = merge.input.files;
    Output& output = merge.first();
    std::vector<Forecast> made;
    const int step = step_for(output.plan);
    int n_idle = 0;
    for (int n_ranks = 1; n_ranks <= kMostAdvised && n_idle < 2; n_ranks *= step) {
        if (n_ranks == own.n_ranks) {
            made.push_back(own);
        } else {
            plan::share_among(output.plan, files,
                              plan::Visibility::everywhere(n_ranks, files.size()), choice);
            made.push_back(forecast(merge, plan::traffic_of(output.plan), advice, comm));
        }
        const bool is_idle = made.size() > 1 && !is_worth(made.back(), made[made.size() - 2]);
        n_idle = is_idle ? n_idle + 1 : 0;
    }
    return made;
}

/// The last that was worth it.
std::size_t knee_of(const std::vector<Forecast>& forecasts) {
    std::size_t knee = 0;
    for (std::size_t i = 1; i < forecasts.size(); ++i) {
        knee = is_worth(forecasts[i], forecasts[i - 1]) ? i : knee;
    }
    return knee;
}

std::string remark(const Advice& advice, std::size_t i) {
    const std::string planned = i == advice.planned ? " planned above" : "";
    return planned + (i == advice.knee ? " <- best" : "");
}

std::string sweep_table(const Advice& advice) {
    double longest = 0;
    for (const Forecast& one : advice.forecasts) {
        longest = std::max(longest, one.time.total_s);
    }
    Cells cells{{"ranks", "nodes", "time", "metadata", "read", "exchange", "write", "limit",
                 "rank's memory"}};
    for (const std::size_t i : indices(advice.forecasts)) {
        const Forecast& one = advice.forecasts[i];
        cells.push_back(
            {std::to_string(one.n_ranks), std::to_string(one.n_nodes),
             duration_text(one.time.total_s), duration_text(one.metadata_s),
             duration_text(one.time.read_s), duration_text(one.time.exchange_s + one.time.copy_s),
             duration_text(one.time.write_s), plan::name_of(one.limit), human_bytes(one.peak),
             bar(one.time.total_s, longest) + remark(advice, i)});
    }
    return table({Align::right, Align::right, Align::right, Align::right, Align::right,
                  Align::right, Align::right, Align::left, Align::right, Align::left},
                 cells);
}

template <typename Value, typename Text>
std::string shares_table(const std::vector<std::pair<const char*, Value>>& parts, Text text) {
    Value all = 0;
    for (const auto& [name, value] : parts) {
        all += value;
    }
    Cells cells;
    for (const auto& [name, value] : parts) {
        cells.push_back({std::string("  ") + name, text(value),
                         bar(static_cast<double>(value), static_cast<double>(all))});
    }
    return table({Align::left, Align::right, Align::left}, cells);
}

std::string time_text(const Forecast& one) {
    return "where the time of " + counted(one.n_ranks, "rank") + " goes\n" +
           shares_table<double>({{"starting", kStart_s},
                                 {"metadata and planning", one.metadata_s},
                                 {"reading", one.time.read_s},
                                 {"sending", one.time.exchange_s},
                                 {"copying in memory", one.time.copy_s},
                                 {"writing", one.time.write_s}},
                                duration_text);
}

/// The greatest at once; the plan is planning's result and lies beside buffers.
std::string memory_text(const MemoryForecast& memory) {
    return "where a rank's memory goes\n" +
           shares_table<Bytes>({{"program and MPI", memory.base},
                                {"while planning", memory.metadata},
                                {"then the plan", memory.plan},
                                {"and buffers", std::max(memory.making, memory.buffers)}},
                               human_bytes);
}

/// For people: where the rates are from.
std::string source_of(const Advice& advice) {
    return "assumed: " + text_of(advice.machine);
}

/// "24 s to 2.1 h (rates assumed; --rate states yours)".
std::string total_text(const Forecast& one, const Advice& advice) {
    const std::string slow = duration_text(one.slow_s);
    if (advice.is_stated) {
        return slow + " at " + human_bytes(advice.rate) + "/s, as --rate states";
    }
    const std::string fast = duration_text(one.time.total_s);
    return (fast == slow || one.slow_s < one.time.total_s ? "about " + fast
                                                          : fast + " to " + slow) +
           " (rates assumed; --rate states yours)";
}

/// "8 on 1 node: 24 s to 2.1 h (...), 310 MB a rank, 2.48 GB a node".
std::string forecast_text(const Forecast& one, const Advice& advice) {
    const int on_node = (one.n_ranks + one.n_nodes - 1) / one.n_nodes;
    return std::to_string(one.n_ranks) + " on " + counted(one.n_nodes, "node") + ": " +
           total_text(one, advice) + ", " + human_bytes(one.peak) + " of memory a rank" +
           (on_node > 1 ? ", " + human_bytes(one.peak * static_cast<Bytes>(on_node)) + " a node"
                        : "");
}

}  // namespace

/// With a parallel file system of the smaller kind.
plan::Machine ordinary_machine() {
    plan::Machine machine;
    machine.rank = {0.0005, 2 * kGb, 0.00001, 3 * kGb, 8 * kGb, 1.5 * kGb};
    machine.shared = {8, 10 * kGb, 8 * kGb, 25 * kGb, 50 * kGb, 40 * kGb, 2e6};
    return machine;
}

plan::MetadataWork metadata_work(const Merge& merge) {
    const std::size_t n_files = merge.input.files.size();
    // Each file is examined and opened, too.
    const double n_calls =
        static_cast<double>(merge.input.n_reads) + 2 * static_cast<double>(n_files);
    const auto in_flight = static_cast<double>(reading_threads(1, n_files));
    return {n_calls, in_flight, planning_seconds(merge.first().plan)};
}

double metadata_seconds(const plan::MetadataWork& work, int n_ranks, int ranks_on_node,
                        const plan::Machine& machine) {
    // One rank of a node reads for all.
    return plan::metadata_seconds(work, machine, (n_ranks + ranks_on_node - 1) / ranks_on_node);
}

Advice advise(Merge& merge, const plan::Traffic& traffic, const plan::Machine& machine,
              const plan::MetadataWork& metadata, const Job& job, const mpi::Comm& comm) {
    Output& output = merge.first();
    const plan::Visibility visibility = output.plan.visibility;
    const plan::JobPlan choice = merge.choice_for(job, merge.resources());
    Advice advice{
        machine, metadata, {}, 0, 0, job.run.rate.value_or(kSlowRate), job.run.rate.has_value()};
    const Forecast own = forecast(merge, traffic, advice, comm);
    advice.forecasts = sweep(merge, own, advice, choice, comm);
    plan::share_among(output.plan, merge.input.files, visibility, choice);
    std::vector<Forecast>& forecasts = advice.forecasts;
    const int knee = forecasts[knee_of(forecasts)].n_ranks;
    const int n_ranks = output.plan.n_ranks();
    const auto place_of = [&](int wanted) {
        return std::ranges::find_if(forecasts,
                                    [&](const Forecast& one) { return one.n_ranks >= wanted; });
    };
    auto at = place_of(n_ranks);
    if (at == forecasts.end() || at->n_ranks != n_ranks) {
        forecasts.insert(at, own);
    }
    advice.planned = as_size(place_of(n_ranks) - forecasts.begin());
    advice.knee = as_size(place_of(knee) - forecasts.begin());
    return advice;
}

Cells answer_rows(const Advice& advice, const std::vector<std::string>& words) {
    const Forecast& knee = advice.forecasts[advice.knee];
    const std::string ranks = std::to_string(knee.n_ranks);
    const std::string line = process::shell_line(words);
    Cells rows{{"best ranks", forecast_text(knee, advice)}};
    if (advice.planned != advice.knee) {
        const Forecast& planned = advice.forecasts[advice.planned];
        rows.push_back({"with " + (planned.n_ranks == 1
                                       ? "one rank"
                                       : std::to_string(planned.n_ranks) + std::string(" ranks")),
                        forecast_text(planned, advice)});
    }
    rows.push_back({"run it", (knee.n_ranks > 1 ? "mpirun -n " + ranks + " " : "") +
                                  "shardweld merge " + line});
    rows.push_back({"on Slurm", "shardweld sbatch " + line + " --nodes " +
                                    std::to_string(knee.n_nodes) + " --ranks " + ranks +
                                    " > merge.sbatch && sbatch merge.sbatch"});
    return rows;
}

std::string advice_text(const Advice& advice, const MemoryForecast& memory) {
    return "how many ranks\n" + sweep_table(advice) + "rates " + source_of(advice) + "\n\n" +
           time_text(advice.forecasts[advice.planned]) + "\n" + memory_text(memory);
}

nlohmann::ordered_json advice_json(const Advice& advice) {
    const auto forecasts =
        collect_list(advice.forecasts, [](const Forecast& one) -> nlohmann::ordered_json {
            return {{"ranks", one.n_ranks},
                    {"nodes", one.n_nodes},
                    {"strategy", std::string(plan::name_of(one.strategy))},
                    {"total_s", one.time.total_s},
                    {"slow_s", one.slow_s},
                    {"metadata_s", one.metadata_s},
                    {"read_s", one.time.read_s},
                    {"exchange_s", one.time.exchange_s},
                    {"copy_s", one.time.copy_s},
                    {"write_s", one.time.write_s},
                    {"limit", plan::name_of(one.limit)},
                    {"peak_bytes", one.peak}};
        });
    const Forecast& knee = advice.forecasts[advice.knee];
    return {{"rates", "assumed"},    {"source", source_of(advice)},
            {"rate", advice.rate},   {"is_stated", advice.is_stated},
            {"ranks", knee.n_ranks}, {"nodes", knee.n_nodes},
            {"forecasts", forecasts}};
}

}  // namespace shardweld::app
