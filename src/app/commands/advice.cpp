#include "advice.hpp"

#include <algorithm>
#include <utility>

#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

constexpr double kGb = 1e9;
constexpr int kMostRanks = 512;
// Twice the ranks are worth it if they save a fifth of the time.
constexpr double kWorth = 0.8;

/// A node of an ordinary cluster with a parallel file system of the smaller kind.
plan::Machine ordinary() {
    plan::Machine machine;
    machine.rank = {0.0005, 2 * kGb, 0.00001, 3 * kGb, 8 * kGb, 1.5 * kGb};
    machine.shared = {8, 10 * kGb, 8 * kGb, 25 * kGb, 50 * kGb, 40 * kGb, 2e6};
    return machine;
}

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

Forecast forecast(const Planned& planned, const plan::Plan& plan, const Supposed& supposed,
                  const mpi::Comm& comm) {
    const plan::Traffic traffic = plan::traffic_of(plan);
    const int per_node = supposed.machine.shared.ranks_per_node;
    Forecast made;
    made.n_ranks = plan.n_ranks();
    made.n_nodes = (made.n_ranks + per_node - 1) / per_node;
    made.strategy = plan.strategy;
    made.time = plan::timeline_of(traffic, supposed.machine, plan.is_lockstep);
    made.time.total_s += kStart_s;
    made.limit = plan::bottleneck_of(traffic, supposed.machine, plan.is_lockstep);
    made.peak = planned.forecast(plan, comm).peak();
    return made;
}

Forecast forecast_for(const Planned& planned, int n_ranks, const Supposed& supposed,
                      const mpi::Comm& comm) {
    const std::vector<catalogue::File>& files = planned.input.files;
    return forecast(
        planned,
        plan::make_plan(planned.plan.targets, files,
                        plan::Visibility::everywhere(n_ranks, files.size()), planned.choice),
        supposed, comm);
}

/// Large plans take seconds each: then fewer are made.
int step_for(const plan::Plan& plan) {
    constexpr std::size_t kLarge = 50'000;
    std::size_t n_operands = 0;
    for (const plan::Target& target : plan.targets) {
        n_operands += target.operands.size();
    }
    return n_operands > kLarge ? 4 : 2;
}

bool is_worth(const Forecast& more, const Forecast& fewer) {
    return more.time.total_s <= kWorth * fewer.time.total_s;
}

/// Until two steps in a row are not worth it.
std::vector<Forecast> sweep(const Planned& planned, const Supposed& supposed,
                            const mpi::Comm& comm) {
    std::vector<Forecast> made;
    const int step = step_for(planned.plan);
    int n_idle = 0;
    for (int n_ranks = 1; n_ranks <= kMostRanks && n_idle < 2; n_ranks *= step) {
        made.push_back(forecast_for(planned, n_ranks, supposed, comm));
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

}  // namespace

Supposed supposed(const std::optional<MeasuredRoof>& roof) {
    Supposed made{ordinary(), "", false};
    if (!roof) {
        made.source = "assumed: " + text_of(made.machine);
        return made;
    }
    const double read = (roof->read_gbs > 0 ? roof->read_gbs : 2 * roof->copy_gbs) * kGb;
    const double write = (roof->write_gbs > 0 ? roof->write_gbs : 2 * roof->copy_gbs) * kGb;
    const int n_ranks = std::max(1, roof->n_ranks);
    made.machine.rank.read_bytes_s = read / n_ranks;
    made.machine.rank.write_bytes_s = write / n_ranks;
    made.machine.rank.read_latency_s = 0;  // in the rates already
    made.machine.shared.ranks_per_node = n_ranks;
    made.machine.shared.node_read_bytes_s = read;
    made.machine.shared.node_write_bytes_s = write;
    made.source = "measured by iobench with " + std::to_string(n_ranks) +
                  " ranks, taken to be one node; network and file system as assumed: " +
                  text_of(made.machine);
    made.is_measured = true;
    return made;
}

Advice advise(const Planned& planned, const Supposed& supposed, const mpi::Comm& comm) {
    Advice advice{supposed, sweep(planned, supposed, comm), 0, 0};
    std::vector<Forecast>& forecasts = advice.forecasts;
    const int knee = forecasts[knee_of(forecasts)].n_ranks;
    const int n_ranks = planned.plan.n_ranks();
    const auto place_of = [&](int wanted) {
        return std::find_if(forecasts.begin(), forecasts.end(),
                            [&](const Forecast& one) { return one.n_ranks >= wanted; });
    };
    auto at = place_of(n_ranks);
    if (at == forecasts.end() || at->n_ranks != n_ranks) {
        forecasts.insert(at, forecast(planned, planned.plan, supposed, comm));
    }
    advice.planned = static_cast<std::size_t>(place_of(n_ranks) - forecasts.begin());
    advice.knee = static_cast<std::size_t>(place_of(knee) - forecasts.begin());
    return advice;
}

}  // namespace shardweld::app
