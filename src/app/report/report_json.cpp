#include "report_json.hpp"

#include <nlohmann/json.hpp>

#include "app/messages/log.hpp"
#include "app/runtime/version.hpp"
#include "models/verification.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

#include "json_parts.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

ordered_json phases_json(const std::vector<Phase>& phases) {
    ordered_json list = ordered_json::array();
    for (const Phase& phase : phases) {
        list.push_back({{"name", phase.name},
                        {"wall_s", phase.wall_s},
                        {"cpu_s", phase.cpu_s},
                        {"bytes_read", phase.bytes_read},
                        {"bytes_written", phase.bytes_written},
                        {"bytes_sent", phase.bytes_sent}});
    }
    return list;
}

/// What a rank took, phase by phase; null where it is not known.
ordered_json times_json(const Report& report, std::size_t rank) {
    if (rank >= report.rank_phases.size()) {
        return {};
    }
    ordered_json list = ordered_json::array();
    for (const Phase& phase : report.rank_phases[rank]) {
        list.push_back({{"name", phase.name}, {"wall_s", phase.wall_s}});
    }
    return list;
}

ordered_json ranks_json(const Report& report) {
    ordered_json list = ordered_json::array();
    for (std::size_t rank = 0; rank < report.ranks.size(); ++rank) {
        const execute::RankResult& done = report.ranks[rank];
        const RankMemory memory = rank < report.memory.size() ? report.memory[rank] : RankMemory();
        list.push_back({{"rank", rank},
                        {"host", done.host},
                        {"peak_bytes", done.peak_bytes},
                        {"base_bytes", memory.base},
                        {"metadata_bytes", memory.metadata},
                        {"plan_bytes", memory.plan},
                        {"buffer_bytes", done.buffer_bytes},
                        {"bytes_read", done.bytes_read},
                        {"bytes_written", done.bytes_written},
                        {"bytes_sent", done.bytes_sent},
                        {"rounds", done.rounds},
                        {"exchange_steps", done.exchange_steps},
                        {"phases", times_json(report, rank)}});
    }
    return list;
}

ordered_json crc_json(const execute::RecordCounts& counts) {
    return {{"records", counts.checked},
            {"bytes", counts.checked_bytes},
            {"unchecked_records", counts.unchecked},
            {"unchecked_bytes", counts.unchecked_bytes},
            {"without", counts.without},
            {"bytes_read", counts.bytes_read}};
}

ordered_json environment_json(const Report& report) {
    const Circumstances& how = report.circumstances;
    return {{"mpi", report.mpi},
            {"hosts", report.hosts},
            {"ranks", report.n_ranks},
            {"command_line", how.command},
            {"launcher", how.launcher},
            {"directory", how.directory},
            {"variables", ordered_json(how.variables)}};
}

ordered_json stamps_json(const std::optional<MadeOf>& made_of) {
    ordered_json list = ordered_json::array();
    if (made_of) {
        for (const publish::InputFact& input : made_of->inputs) {
            list.push_back({{"name", input.name},
                            {"bytes", input.stamp.size},
                            {"modified_ns", input.stamp.modified_ns}});
        }
    }
    return list;
}

ordered_json output_json(const std::optional<MadeOf>& made_of) {
    return made_of ? ordered_json({{"dir", made_of->target},
                                   {"options", made_of->options},
                                   {"config_xxh3_128", made_of->config}})
                   : ordered_json();
}

/// A value, or null for what the run did not get to know.
ordered_json known(const std::string& text) {
    return text.empty() ? ordered_json() : ordered_json(text);
}

}  // namespace

std::string to_json(const Report& report) {
    ordered_json json = {{"schema", kReportSchema}};
    json["tool"] = {{"version", version()}, {"git", git_version()}};
    json["command"] = report.command;
    json["exit"] = {
        {"code", static_cast<int>(report.code)}, {"name", std::string(name_of(report.code))},
        {"message", report.failure.what()},      {"where", report.failure.context()},
        {"hint", hint_of(report.failure)},       {"detail", report.failure.detail()}};
    json["environment"] = environment_json(report);
    json["input"] = {
        {"dir", report.input_directory},           {"format", report.input_format},
        {"facts", ordered_json(report.facts)},     {"notes", report.input_notes},
        {"files", report.n_input_files},           {"bytes", report.input_bytes},
        {"metadata_reads", report.metadata_reads}, {"sha256", json_list(report.input_sums)},
        {"stamps", stamps_json(report.made_of)}};
    json["output"] = output_json(report.made_of);
    json["provenance"] = json_of(report.provenance);
    json["mixed"] = json_list(report.mixed);
    json["recipe"] = {{"name", known(report.recipe)},
                      {"verified", std::string(models::name_of(report.verification.level))},
                      {"by", report.verification.by}};
    json["plan"] = {{"hash", known(report.plan_hash)},
                    {"strategy", known(report.strategy)},
                    {"why", report.why},
                    {"rounds", report.rounds},
                    {"metadata_bytes", report.metadata_bytes}};
    json["quotas"] = quotas_json(report.quotas);
    json["phases"] = phases_json(report.phases);
    json["resume"] = report.resumed
                         ? ordered_json({{"blocks_reused", report.resumed->blocks_reused},
                                         {"bytes_reused", report.resumed->bytes_reused},
                                         {"bytes_read_back_earlier", report.resumed->bytes_seen},
                                         {"bytes_redone", report.resumed->bytes_redone}})
                         : ordered_json();
    json["crc"] = report.crc ? crc_json(*report.crc) : ordered_json();
    json["roof"] = report.roof ? ordered_json({{"copy_gbs", report.roof->copy_gbs},
                                               {"merge_gbs", report.roof->merge_gbs},
                                               {"percent", report.roof->percent}})
                               : ordered_json();
    json["ranks"] = ranks_json(report);
    json["ledger"] = json_of(report.ledger);
    json["files"] = json_list(report.files);
    json["side_files"] = report.side_files;
    json["tensors"] = json_list(report.tensors);
    json["sanity"] = json_of(report.sanity);
    json["base"] = report.base ? json_of(*report.base) : ordered_json();
    json["warnings"] = json_list(report.warnings);
    json["root"] = known(report.root);
    return json_text(json);
}

void write_report(const Report& report, const fs::path& path, bool sync) {
    write_json(to_json(report), path, sync);
}

void write_json(const std::string& text, const fs::path& path, bool sync) {
    publish::write_report(text, path, sync);
}

}  // namespace shardweld::app
