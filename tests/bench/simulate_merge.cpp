// simulate_merge SOURCE ...: what a merge of a checkpoint takes on machines that are not here.
// Reads the checkpoint's metadata, plans for every number of ranks and both strategies, and prints
// a JSON line with the phases of each. Machines are assumptions: tests/bench/machines.json.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <cxxopts.hpp>
#include <nlohmann/json.hpp>

#include "app/merge/merge.hpp"
#include "app/merge/sources.hpp"
#include "app/report/run.hpp"
#include "app/survey/in_turns.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/cost.hpp"
#include "plan/schedule/traffic.hpp"

namespace {

using namespace shardweld;
using nlohmann::ordered_json;

/// A machine as it is written down.
struct Described {
    std::string name;
    bool is_local = false;  ///< shards lie on the nodes' own disks, in the order of their names
    double plan_s = 0;      ///< every rank plans alike
    double metadata_ops_s = 0;
    plan::Machine machine;
};

Described described(const ordered_json& json) {
    const auto gbs = [&](const char* part, const char* field) {
        return json.at(part).at(field).get<double>() * 1e9;
    };
    Described made;
    made.name = json.at("name").get<std::string>();
    made.is_local = json.at("shards").get<std::string>() == "local";
    made.plan_s = json.at("plan_s");
    made.metadata_ops_s = json.at("metadata_ops_s");
    plan::Rates& rank = made.machine.rank;
    rank.read_latency_s = json.at("rank").at("read_latency_s");
    rank.read_bytes_s = gbs("rank", "read_gbs");
    rank.message_latency_s = json.at("rank").at("message_latency_s");
    rank.exchange_bytes_s = gbs("rank", "exchange_gbs");
    rank.copy_bytes_s = gbs("rank", "copy_gbs");
    rank.write_bytes_s = gbs("rank", "write_gbs");
    plan::Shared& shared = made.machine.shared;
    shared.ranks_per_node = json.at("ranks_per_node");
    shared.node_read_bytes_s = gbs("node", "read_gbs");
    shared.node_write_bytes_s = gbs("node", "write_gbs");
    shared.node_exchange_bytes_s = gbs("node", "exchange_gbs");
    shared.system_read_bytes_s = gbs("system", "read_gbs");
    shared.system_write_bytes_s = gbs("system", "write_gbs");
    shared.system_reads_s = json.at("system").at("reads_s");
    return made;
}

plan::Visibility visibility_of(const Described& machine, int n_ranks, std::size_t n_files) {
    const int per_node = machine.machine.shared.ranks_per_node;
    const int n_nodes = (n_ranks + per_node - 1) / per_node;
    if (!machine.is_local || n_nodes == 1) {
        return plan::Visibility::everywhere(n_ranks, n_files);
    }
    plan::Visibility visibility;
    for (int rank = 0; rank < n_ranks; ++rank) {
        visibility.group_of_rank.push_back(static_cast<std::uint32_t>(rank / per_node));
    }
    visibility.group_sees.assign(static_cast<std::size_t>(n_nodes),
                                 std::vector<bool>(n_files, false));
    for (std::size_t file = 0; file < n_files; ++file) {
        visibility.group_sees[file * static_cast<std::size_t>(n_nodes) / n_files][file] = true;
    }
    return visibility;
}

/// Which bound alone takes the longest.
const char* bottleneck_of(const plan::Traffic& traffic, const Described& machine, bool is_lockstep,
                          double metadata_s) {
    const plan::Bottleneck limit = plan::bottleneck_of(traffic, machine.machine, is_lockstep);
    const plan::Machine& all = machine.machine;
    return metadata_s > plan::timeline_of(traffic, all, is_lockstep).total_s ? "metadata"
                                                                             : plan::name_of(limit);
}

/// Reading the metadata, shared by ranks, and planning.
double survey_s(const app::Merge& merge, const Described& machine) {
    const int n_ranks = merge.first().plan.n_ranks();
    const int per_node = machine.machine.shared.ranks_per_node;
    const auto in_flight = static_cast<double>(app::reading_threads(1, merge.input.files.size()));
    return plan::metadata_seconds(
        {static_cast<double>(merge.input.n_reads), in_flight, machine.plan_s}, machine.machine,
        (n_ranks + per_node - 1) / per_node);
}

/// What ranks do together in each round, whatever they send: two agreements (trees of messages) and
/// an exchange in which each looks at every other. Free-running ranks do neither.
double meetings_s(const plan::Traffic& traffic, const plan::Plan& plan, const Described& machine) {
    constexpr double kEntry_s = 2e-7;  // of MPI_Alltoallv, for a rank that nothing is sent to
    const double n_ranks = plan.n_ranks();
    const double rounds = plan::spread_of(traffic.ranks, &plan::RankTraffic::rounds).most;
    const double tree = 2 * std::ceil(std::log2(n_ranks)) * machine.machine.rank.message_latency_s;
    return plan.is_lockstep ? rounds * (2 * tree + n_ranks * kEntry_s) : 0;
}

/// The share of the metadata server's time that journals take: each rank syncs its own every so
/// often.
double journal_share(const plan::Plan& plan, const Described& machine) {
    constexpr double kSync_s = 5;
    return plan.n_ranks() / kSync_s / machine.metadata_ops_s;
}

ordered_json simulated(const app::Merge& merge, const Described& machine) {
    const plan::Plan& plan = merge.first().plan;
    const plan::Traffic traffic = plan::traffic_of(plan);
    const plan::Timeline time = plan::timeline_of(traffic, machine.machine, plan.is_lockstep);
    const auto spread = [&](auto figure) { return plan::spread_of(traffic.ranks, figure); };
    const double opens = spread(&plan::RankTraffic::files_read).total +
                         spread(&plan::RankTraffic::files_written).total +
                         static_cast<double>(traffic.inputs.size());
    const double metadata_s = survey_s(merge, machine) + opens / machine.metadata_ops_s;
    return {{"machine", machine.name},
            {"strategy", std::string(plan::name_of(plan.strategy))},
            {"ranks", plan.n_ranks()},
            {"lockstep", plan.is_lockstep},
            {"metadata_s", metadata_s},
            {"read_s", time.read_s},
            {"exchange_s", time.exchange_s},
            {"copy_s", time.copy_s},
            {"write_s", time.write_s},
            {"meetings_s", meetings_s(traffic, plan, machine)},
            {"journal_share", journal_share(plan, machine)},
            {"total_s", metadata_s + time.total_s + meetings_s(traffic, plan, machine)},
            {"limit", bottleneck_of(traffic, machine, plan.is_lockstep, metadata_s)},
            {"read_bytes", spread(&plan::RankTraffic::bytes_read).total},
            {"read_imbalance", spread(&plan::RankTraffic::bytes_read).imbalance()},
            {"written_imbalance", spread(&plan::RankTraffic::bytes_written).imbalance()},
            {"sent_bytes", spread(&plan::RankTraffic::bytes_sent).total},
            {"reads", spread(&plan::RankTraffic::reads).total},
            {"opens", opens},
            {"readers_per_file", plan::spread_of(traffic.inputs, &plan::FileTraffic::ranks).most}};
}

void simulate(const cxxopts::ParseResult& given) {
    app::Job job;
    job.inputs.front().directory = given["source"].as<std::string>();
    job.model.hf_config = given["hf_config"].as<std::string>();
    std::ifstream file(given["machines"].as<std::string>());
    const ordered_json machines = ordered_json::parse(file);
    const auto comm = mpi::serial_comm();
    Events nobody;
    app::Log silent(nobody, false);
    const app::Run run = app::begin_run(*comm, job, silent);
    app::Merge merge = app::begin_merge(run);
    app::find_inputs(run, merge);
    app::plan_found(run, merge);
    const std::vector<catalogue::File>& files = merge.input.files;
    const int most = to_int(parse_index(given["ranks"].as<std::string>()).value_or(1), "--ranks");
    for (const ordered_json& json : machines) {
        const Described machine = described(json);
        for (int n_ranks = 1; n_ranks <= most; n_ranks *= 2) {
            for (const auto strategy : {plan::Strategy::direct, plan::Strategy::collective}) {
                plan::JobPlan choice;
                choice.strategy = strategy;
                ordered_json line = {{"model", given["name"].as<std::string>()}};
                plan::share_among(merge.first().plan, files,
                                  visibility_of(machine, n_ranks, files.size()), choice);
                line.update(simulated(merge, machine));
                std::printf("%s\n", line.dump().c_str());
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    cxxopts::Options options("simulate_merge", "Simulated merges of a checkpoint, as JSON lines.");
    auto add = options.add_options();
    add("source", "the checkpoint", cxxopts::value<std::string>());
    add("hf_config", "directory of its config.json", cxxopts::value<std::string>());
    add("machines", "JSON list of machines", cxxopts::value<std::string>());
    add("name", "of the model", cxxopts::value<std::string>()->default_value("model"));
    add("ranks", "the most; simulated are powers of two up to it",
        cxxopts::value<std::string>()->default_value("512"));
    options.parse_positional({"source"});
    options.positional_help("SOURCE");
    try {
        simulate(options.parse(argc, argv));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "simulate_merge: %s\n", error.what());
        return 1;
    }
    return 0;
}
