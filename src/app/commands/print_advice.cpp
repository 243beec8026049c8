#include "print_advice.hpp"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "shardweld/core/text.hpp"
#include "shardweld/process/shell.hpp"

#include "../cli/shown_numbers.hpp"
#include "../cli/table.hpp"

namespace shardweld::app {

namespace {

using Cells = std::vector<std::vector<std::string>>;

std::string remark(const Advice& advice, std::size_t i) {
    const std::string planned = i == advice.planned ? " planned above" : "";
    return planned + (i == advice.knee ? " <- worth it" : "");
}

std::string sweep_table(const Advice& advice) {
    double longest = 0;
    for (const Forecast& one : advice.forecasts) {
        longest = std::max(longest, one.time.total_s);
    }
    Cells cells{{"ranks", "nodes", "time", "read", "exchange", "write", "limit", "rank's memory"}};
    for (std::size_t i = 0; i < advice.forecasts.size(); ++i) {
        const Forecast& one = advice.forecasts[i];
        cells.push_back({std::to_string(one.n_ranks), std::to_string(one.n_nodes),
                         duration_text(one.time.total_s), duration_text(one.time.read_s),
                         duration_text(one.time.exchange_s + one.time.copy_s),
                         duration_text(one.time.write_s), plan::name_of(one.limit),
                         human_bytes(one.peak),
                         bar(one.time.total_s, longest) + remark(advice, i)});
    }
    return table({Align::right, Align::right, Align::right, Align::right, Align::right,
                  Align::right, Align::left, Align::right, Align::left},
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
    return "where the time of " + counted(static_cast<std::size_t>(one.n_ranks), "rank") +
           " goes\n" +
           shares_table<double>({{"starting", kStart_s},
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

std::string asking_text(const Advice& advice, const std::vector<std::string>& words) {
    const Forecast& knee = advice.forecasts[advice.knee];
    const int on_node = (knee.n_ranks + knee.n_nodes - 1) / knee.n_nodes;
    const std::string nodes = std::to_string(knee.n_nodes);
    const std::string ranks = std::to_string(knee.n_ranks);
    std::string text = "ask for " + counted(static_cast<std::size_t>(knee.n_nodes), "node") +
                       " and " + counted(static_cast<std::size_t>(knee.n_ranks), "rank") + ": " +
                       duration_text(knee.time.total_s) + ", " +
                       human_bytes(knee.peak * static_cast<Bytes>(on_node)) + " a node\n";
    const std::string line = process::shell_line(words);
    return text + "  mpirun -n " + ranks + " shardweld merge " + line +
           "\nor on Slurm\n  shardweld plan " + line + " --sbatch --nodes " + nodes + " --ranks " +
           ranks + " > merge.sbatch && sbatch merge.sbatch\n";
}

}  // namespace

std::string advice_text(const Advice& advice, const MemoryForecast& memory,
                        const std::vector<std::string>& words) {
    const Supposed& supposed = advice.supposed;
    return "how many ranks\n" + sweep_table(advice) + "rates " + supposed.source + "\n" +
           (supposed.is_measured ? ""
                                 : "  yours: mpirun -n 8 shardweld iobench DIR --report roof.json, "
                                   "then plan --roof roof.json\n") +
           "\n" + time_text(advice.forecasts[advice.planned]) + "\n" + memory_text(memory) + "\n" +
           asking_text(advice, words);
}

nlohmann::ordered_json advice_json(const Advice& advice) {
    using nlohmann::ordered_json;
    ordered_json forecasts = ordered_json::array();
    for (const Forecast& one : advice.forecasts) {
        forecasts.push_back({{"ranks", one.n_ranks},
                             {"nodes", one.n_nodes},
                             {"strategy", std::string(plan::name_of(one.strategy))},
                             {"total_s", one.time.total_s},
                             {"read_s", one.time.read_s},
                             {"exchange_s", one.time.exchange_s},
                             {"copy_s", one.time.copy_s},
                             {"write_s", one.time.write_s},
                             {"limit", plan::name_of(one.limit)},
                             {"peak_bytes", one.peak}});
    }
    const Forecast& knee = advice.forecasts[advice.knee];
    return {{"rates", advice.supposed.is_measured ? "measured" : "assumed"},
            {"source", advice.supposed.source},
            {"ranks", knee.n_ranks},
            {"nodes", knee.n_nodes},
            {"forecasts", std::move(forecasts)}};
}

}  // namespace shardweld::app
