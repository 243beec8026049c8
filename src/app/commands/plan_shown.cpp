#include "plan_shown.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/merge/target.hpp"
#include "app/messages/table.hpp"
#include "app/report/json_parts.hpp"
#include "core/text.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kPlanSchema = 1;

// What follows a size that only creating the files tells exactly.
constexpr const char* kEstimated = " (sizes and offsets are estimates)";

std::string ratio_text(double ratio) {
    std::array<char, 32> text{};
    (void)std::snprintf(text.data(), text.size(), "%.3f", ratio);
    return text.data();
}

/// "2.0 GB to 2.1 GB, mean 2.0 GB, busiest / mean 1.020"
std::string spread_text(const plan::Spread& spread) {
    return human_bytes(static_cast<Bytes>(spread.least)) + " to " +
           human_bytes(static_cast<Bytes>(spread.most)) + ", mean " +
           human_bytes(static_cast<Bytes>(spread.mean)) + ", busiest / mean " +
           ratio_text(spread.imbalance());
}

/// "at most 3, mean 1.250"
std::string most_text(const plan::Spread& spread) {
    return "at most " + std::to_string(static_cast<Index>(spread.most)) + ", mean " +
           ratio_text(spread.mean);
}

std::string files_table(const plan::Plan& plan) {
    std::vector<std::vector<std::string>> cells{{"file", "tensors", "bytes"}};
    for (const outputs::PlacedFile& file : plan.placement.files) {
        cells.push_back(
            {file.name, std::to_string(file.tensors.size()), std::to_string(file.size)});
    }
    for (const outputs::SideFile& file : plan.placement.side_files) {
        cells.push_back({file.name, "", std::to_string(file.text.size())});
    }
    return table({Align::left, Align::right, Align::right}, cells);
}

std::string replicas_text(const plan::Plan& plan) {
    if (plan.replica_bytes == 0) {
        return "none";
    }
    const Bytes rest = plan.replica_bytes - plan.equal_bytes;
    const std::string equal = plan.equal_bytes == 0
                                  ? ""
                                  : ", " + human_bytes(plan.equal_bytes) + " equal by their CRC-32";
    const std::string how =
        rest == 0                  ? ""
        : plan.compared_bytes == 0 ? ", not compared"
        : plan.compared_bytes == rest
            ? ", all compared"
            : ", samples of about " + human_bytes(plan.compared_bytes) + " compared";
    return human_bytes(plan.replica_bytes) + equal + how;
}

std::vector<std::vector<std::string>> plan_rows(const PlannedMerge& merge) {
    const Figures& figures = merge.figures;
    const plan::Plan& plan = merge.plan;
    std::vector<std::vector<std::string>> rows{
        {"checkpoint", merge.input},
        {"format", merge.format},
        {"recipe", merge.recipe},
        {"output", counted(plan.placement.files.size(), "file") + ", " +
                       counted(plan.targets.size(), "tensor") + ", " +
                       human_bytes(plan.placement.total_bytes()) +
                       (plan.placement.is_settled ? "" : kEstimated)},
        {"ranks", std::to_string(plan.n_ranks())},
        {"written by a rank", spread_text(figures.written)},
        {"read by a rank", spread_text(figures.read)},
        {"reads", std::to_string(figures.reads) + ", " + human_bytes(figures.read_over_bytes) +
                      " in gaps between short runs"},
        {"readers of a shard", most_text(figures.readers)},
        {"writers of a file", most_text(figures.writers)},
        {"buffers of a rank", human_bytes(figures.buffer_bytes)},
        {"metadata of a rank", human_bytes(figures.metadata_bytes)},
        {"reads of metadata", std::to_string(merge.n_reads) + ", shared by the ranks"},
        {"peak of a rank",
         human_bytes(merge.memory.peak()) + ": program " + human_bytes(merge.memory.base) +
             ", planning " + human_bytes(merge.memory.metadata) + ", then plan and buffers " +
             human_bytes(merge.memory.plan + std::max(merge.memory.making, merge.memory.buffers))},
        {"rounds", std::to_string(figures.rounds)},
        {"strategy", std::string(plan::name_of(plan.strategy)) + ": " + plan.why},
        {"sent over the network",
         human_bytes(figures.network_bytes) + " in " +
             counted(static_cast<std::size_t>(figures.messages), "message")},
        {"replicas", replicas_text(plan)},
        {"plan", plan.hash()},
    };
    if (merge.quotas) {
        rows.push_back({"quotas", quotas_text(*merge.quotas)});
    }
    return rows;
}

std::string ledger_text(const plan::Ledger& ledger) {
    std::vector<std::vector<std::string>> cells{
        {"  stored", "", std::to_string(ledger.stored), ""},
        {"  used", "", std::to_string(ledger.consumed), ""},
        {"  replicas", "", std::to_string(ledger.replica), ""},
        {"  padding", "", std::to_string(ledger.padding), ""}};
    for (const catalogue::Ignored& ignored : ledger.ignored) {
        cells.push_back({"  ignored " + printable(ignored.pattern), std::to_string(ignored.count),
                         std::to_string(ignored.bytes), printable(ignored.reason)});
    }
    return "input bytes\n" + table({Align::left, Align::right, Align::right, Align::left}, cells);
}

ordered_json by_rank(const std::vector<plan::RankTraffic>& ranks,
                     Bytes plan::RankTraffic::*figure) {
    ordered_json values = ordered_json::array();
    for (const plan::RankTraffic& rank : ranks) {
        values.push_back(rank.*figure);
    }
    return values;
}

ordered_json most_json(const plan::Spread& spread) {
    return {{"max", static_cast<Index>(spread.most)}, {"mean", spread.mean}};
}

ordered_json files_json(const plan::Plan& plan) {
    ordered_json files = ordered_json::array();
    for (const outputs::PlacedFile& file : plan.placement.files) {
        files.push_back(
            {{"name", file.name}, {"bytes", file.size}, {"tensors", file.tensors.size()}});
    }
    for (const outputs::SideFile& file : plan.placement.side_files) {
        files.push_back({{"name", file.name}, {"bytes", file.text.size()}, {"tensors", 0}});
    }
    return files;
}

}  // namespace

Figures figures_of(const plan::Plan& plan) {
    using plan::FileTraffic;
    using plan::RankTraffic;
    using plan::spread_of;
    Figures figures;
    plan::Traffic traffic = traffic_of(plan);
    figures.written = spread_of(traffic.ranks, &RankTraffic::bytes_written);
    figures.read = spread_of(traffic.ranks, &RankTraffic::bytes_read);
    figures.readers = spread_of(traffic.inputs, &FileTraffic::ranks);
    figures.writers = spread_of(traffic.outputs, &FileTraffic::ranks);
    for (const RankTraffic& rank : traffic.ranks) {
        figures.network_bytes += rank.bytes_sent;
        figures.read_over_bytes += rank.bytes_read_over;
        figures.reads += rank.reads;
        figures.messages += rank.messages_sent;
        figures.rounds = std::max(figures.rounds, rank.rounds);
    }
    figures.buffer_bytes = plan.limits.total();
    figures.metadata_bytes = plan::metadata_bytes(plan);
    figures.traffic = std::move(traffic);
    return figures;
}

std::string plan_text(const PlannedMerge& merge) {
    return table({Align::left, Align::left}, plan_rows(merge)) + "\n" + files_table(merge.plan) +
           "\n" + ledger_text(merge.ledger) +
           (merge.advice ? "\n" + advice_text(*merge.advice, merge.memory, merge.words) : "");
}

std::string inputs_text(const PlannedMerge& merge) {
    std::string text;
    for (const catalogue::File& file : merge.files) {
        text +=
            std::to_string(file.size) + " " + (fs::path(merge.input) / file.path).string() + "\n";
    }
    return text;
}

std::string plan_json(const PlannedMerge& merge) {
    const plan::Plan& plan = merge.plan;
    const Figures& figures = merge.figures;
    ordered_json json = {
        {"schema", kPlanSchema},  {"input", {{"dir", merge.input}, {"format", merge.format}}},
        {"recipe", merge.recipe}, {"ranks", plan.n_ranks()},
        {"hash", plan.hash()},    {"strategy", std::string(plan::name_of(plan.strategy))},
        {"why", plan.why}};
    json["tensor_bytes"] = plan.placement.tensor_bytes;
    json["total_bytes"] = plan.placement.total_bytes();
    json["written_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_written);
    json["imbalance"] = figures.written.imbalance();
    json["read_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_read);
    json["read_imbalance"] = figures.read.imbalance();
    json["read_over_bytes"] = figures.read_over_bytes;
    json["reads"] = figures.reads;
    json["readers_per_file"] = most_json(figures.readers);
    json["writers_per_file"] = most_json(figures.writers);
    json["buffer_bytes"] = figures.buffer_bytes;
    json["metadata_bytes"] = figures.metadata_bytes;
    json["metadata_reads"] = merge.n_reads;
    json["metadata_s"] = merge.metadata_s;
    json["peak_bytes"] = merge.memory.peak();
    json["memory"] = {
        {"base_bytes", merge.memory.base},      {"metadata_bytes", merge.memory.metadata},
        {"plan_bytes", merge.memory.plan},      {"making_bytes", merge.memory.making},
        {"buffer_bytes", merge.memory.buffers}, {"limit_bytes", plan.limits.total()},
        {"read_ahead", plan.limits.ahead > 0}};
    json["network_bytes"] = figures.network_bytes;
    json["sent_by_rank"] = by_rank(figures.traffic.ranks, &plan::RankTraffic::bytes_sent);
    json["messages"] = figures.messages;
    json["rounds"] = figures.rounds;
    json["is_estimate"] = !plan.placement.is_settled;
    json["replicas"] = {{"bytes", plan.replica_bytes},
                        {"equal_bytes", plan.equal_bytes},
                        {"compared_bytes", plan.compared_bytes}};
    json["quotas"] = quotas_json(merge.quotas);
    json["files"] = files_json(plan);
    json["tensors"] = json_list(tensor_entries(plan, merge.files, {}));
    json["ledger"] = json_of(merge.ledger);
    json["warnings"] = json_list(merge.warnings);
    json["advice"] = merge.advice ? advice_json(*merge.advice) : ordered_json();
    return json_text(json);
}

}  // namespace shardweld::app
