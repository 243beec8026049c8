#include "report_json.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <ostream>
#include <sstream>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/messages/hidden.hpp"
#include "app/messages/log.hpp"
#include "app/runtime/version.hpp"
#include "core/json.hpp"
#include "core/names/names.hpp"
#include "core/redact.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "models/verification.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

#include "files_beside.hpp"

namespace shardweld::app {

namespace {

ordered_json phase_json(const Phase& phase) {
    return {{"name", phase.name},
            {"wall_s", phase.wall_s},
            {"cpu_s", phase.cpu_s},
            {"bytes_read", phase.bytes_read},
            {"bytes_written", phase.bytes_written},
            {"bytes_sent", phase.bytes_sent}};
}

/// What a rank took, phase by phase; null where it is not known.
ordered_json times_json(const RunReport& report, std::size_t rank) {
    if (rank >= report.rank_phases.size()) {
        return {};
    }
    return collect_list(report.rank_phases[rank], [](const Phase& phase) -> ordered_json {
        return {{"name", phase.name}, {"wall_s", phase.wall_s}};
    });
}

ordered_json ranks_json(const RunReport& run, const OutputReport& output) {
    ordered_json list = ordered_json::array();
    for (const std::size_t rank : indices(output.ranks)) {
        const execute::RankResult& done = output.ranks[rank];
        const RankMemory memory = rank < run.memory.size() ? run.memory[rank] : RankMemory();
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
                        {"phases", times_json(run, rank)}});
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

ordered_json environment_json(const RunReport& report) {
    const Circumstances& how = report.circumstances;
    return {{"mpi", report.mpi},
            {"hosts", report.hosts},
            {"ranks", report.n_ranks},
            {"command_line", how.command},
            {"launcher", how.launcher},
            {"launcher_unseen", how.unseen},
            {"started", how.started},
            {"directory", how.directory},
            {"variables", ordered_json(how.variables)}};
}

ordered_json stamp_json(const publish::InputFact& input) {
    return {{"name", input.name},
            {"bytes", input.stamp.size},
            {"modified_ns", input.stamp.modified_ns}};
}

ordered_json output_json(const std::optional<MadeOf>& made_of) {
    return made_of ? ordered_json({{"dir", made_of->target},
                                   {"options", made_of->options},
                                   {"config_xxh3_128", made_of->config}})
                   : ordered_json();
}

constexpr const char* kOwnReport = "give the report that the merge of this model wrote";

using Json = nlohmann::json;

constexpr Bytes kLongestReport = Bytes{1} << 30U;

// get() takes fractions for numbers, too, and what does not fit is undefined: get_ref() refuses
// them.
TensorEntry tensor_in(const Json& entry) {
    TensorEntry tensor;
    tensor.name = entry.at("name").get<std::string>();
    const std::string type = entry.at("dtype").get<std::string>();
    const auto dtype = dtype_from_torch(type);
    if (!dtype) {
        throw Error(ErrorCode::corrupt,
                    "the report has the type " + printable(type) + " of " + printable(tensor.name),
                    kOwnReport);
    }
    tensor.dtype = *dtype;
    for (const Json& extent : entry.at("shape").get_ref<const Json::array_t&>()) {
        tensor.shape.push_back(extent.get_ref<const Json::number_integer_t&>());
    }
    tensor.file = entry.value("file", "");
    tensor.offset = entry.value("offset", Bytes{0});
    tensor.bytes = entry.value("bytes", Bytes{0});
    const Json& digest = entry.at("xxh3_128");
    tensor.digest = digest.is_null() ? "" : digest.get<std::string>();
    // A rank holds less than a block of what another one has begun.
    constexpr Bytes kLargestBlock = Bytes{256} << 20U;
    tensor.block = entry.value("xxh3_block", Bytes{0});
    if (tensor.block > kLargestBlock) {
        throw Error(ErrorCode::corrupt,
                    "the report has a checksum over " + human_bytes(tensor.block) + " of " +
                        printable(tensor.name),
                    kOwnReport);
    }
    return tensor;
}

FileEntry file_in(const Json& entry) {
    const Json& sha256 = entry.at("sha256");
    FileEntry file{entry.at("name").get<std::string>(),
                   entry.at("bytes").get_ref<const Json::number_unsigned_t&>(),
                   sha256.is_null() ? "" : sha256.get<std::string>(),
                   entry.value("rest_xxh3_128", "")};
    if (!stays_below(file.name)) {
        throw Error(ErrorCode::corrupt,
                    "the report names a file outside of the model: " + printable(file.name),
                    kOwnReport);
    }
    return file;
}

publish::InputFact input_in(const Json& entry) {
    publish::InputFact input;
    input.name = entry.at("name").get<std::string>();
    input.stamp.size = entry.at("bytes").get_ref<const Json::number_unsigned_t&>();
    input.stamp.modified_ns = entry.at("modified_ns").get_ref<const Json::number_integer_t&>();
    return input;
}

/// By what a later run knows that the output is its own.
void add_origin(const Json& root, Report& report) {
    const Json none;
    const Json& made = root.contains("output") ? root.at("output") : none;
    if (!made.is_object()) {
        return;
    }
    report.made_of = {made.at("dir").get<std::string>(),
                      made.at("config_xxh3_128").get<std::string>(),
                      made.at("options").get<std::vector<std::string>>(),
                      {}};
    report.side_files = root.at("side_files").get<std::vector<std::string>>();
    report.input.directory = root.at("input").at("dir").get<std::string>();
    for (const Json& entry : root.at("input").at("stamps")) {
        report.made_of->inputs.push_back(input_in(entry));
    }
}

Report output_in(const Json& root, const std::string& path, bool has_checksums) {
    if (root.at("schema") != kReportSchema) {
        throw Error(ErrorCode::unsupported,
                    path + " is a report of schema " + printable(root.at("schema").dump()) +
                        ", this version reads schema 1",
                    "verify with the version that wrote it");
    }
    if (root.at("exit").at("code") != 0) {
        throw Error(ErrorCode::usage,
                    path + " describes a run that failed (exit code " +
                        root.at("exit").at("code").dump() + ")",
                    "give the report of the run that wrote the model");
    }
    Report output;
    for (const Json& entry : root.at("tensors")) {
        output.tensors.push_back(tensor_in(entry));
        if (has_checksums && output.tensors.back().digest.empty()) {
            throw Error(ErrorCode::usage, path + " holds no checksums", "merge with --report");
        }
    }
    for (const Json& entry : root.value("files", Json::array())) {
        output.files.push_back(file_in(entry));
    }
    output.root = has_checksums ? root.at("root").get<std::string>() : "";
    add_origin(root, output);
    return output;
}

std::string kind_of(const TensorEntry& tensor) {
    return torch_name(tensor.dtype) + " " + shape_text(tensor.shape);
}

}  // namespace

ordered_json json_or_null(const std::string& text) {
    return text.empty() ? ordered_json() : ordered_json(text);
}

nlohmann::json parse_with_nonfinite(const std::string& text) {
    return parse_json<nlohmann::json>(without_nonfinite(text));
}

ordered_json json_of(const numeric::Quality& quality, const std::string& encoding) {
    return {{"encoding", encoding},
            {"relative_error", quality.relative_error()},
            {"saturated", quality.n_saturated},
            {"zeroed", quality.n_zeroed},
            {"worst_tile",
             {{"row", quality.worst.row},
              {"column", quality.worst.column},
              {"relative_error", quality.worst.error}}}};
}

ordered_json json_of(const TensorEntry& tensor) {
    ordered_json json = {{"name", tensor.name},     {"dtype", torch_name(tensor.dtype)},
                         {"shape", tensor.shape},   {"file", tensor.file},
                         {"offset", tensor.offset}, {"bytes", tensor.bytes}};
    json["xxh3_128"] = json_or_null(tensor.digest);
    json["sources"] = tensor.sources;
    if (!tensor.factors.empty()) {
        json["factors"] = tensor.factors;
    }
    if (tensor.block != 0) {
        json["xxh3_block"] = tensor.block;
    }
    if (tensor.quality) {
        json["quantised"] = json_of(*tensor.quality, tensor.encoding);
    }
    return json;
}

ordered_json json_of(const catalogue::Ignored& ignored) {
    return {{"pattern", ignored.pattern},
            {"reason", ignored.reason},
            {"count", ignored.count},
            {"bytes", ignored.bytes}};
}

ordered_json json_of(const catalogue::Provenance& provenance) {
    return {{"standing", catalogue::name_of(provenance.standing)},
            {"evidence", provenance.evidence}};
}

ordered_json json_of(const plan::Ledger& ledger) {
    return {{"stored", ledger.stored},
            {"consumed", ledger.consumed},
            {"replica", ledger.replica},
            {"padding", ledger.padding},
            {"ignored", json_list(ledger.ignored)}};
}

ordered_json json_of(const MixedInput& mixed) {
    const InputReport& input = mixed.input;
    return {{"dir", input.directory},
            {"format", input.format},
            {"facts", ordered_json(input.facts)},
            {"files", input.n_files},
            {"bytes", input.bytes},
            {"provenance", json_of(input.provenance)},
            {"is_base", mixed.is_base},
            {"weight", mixed.weight},
            {"ledger", json_of(mixed.ledger)}};
}

ordered_json json_of(const Warning& warning) {
    return {{"code", warning.code},
            {"tensor", warning.tensor},
            {"text", without_secrets(warning.text)}};
}

ordered_json json_of(const FileEntry& file) {
    ordered_json json = {{"name", file.name}, {"bytes", file.bytes}};
    json["sha256"] = json_or_null(file.sha256);
    if (!file.rest.empty()) {
        json["rest_xxh3_128"] = file.rest;
    }
    return json;
}

ordered_json json_of(const OddTensor& tensor) {
    return {{"name", tensor.name},
            {"nan", tensor.n_nan},
            {"inf", tensor.n_inf},
            {"all_zero", tensor.is_zero},
            {"constant", tensor.is_constant},
            {"mostly_zero", tensor.is_mostly_zero}};
}

ordered_json json_of(const BaseSummary& base) {
    ordered_json json = {{"dir", base.directory},
                         {"compared", base.n_compared},
                         {"equal", base.n_equal},
                         {"max_abs", base.max_absolute}};
    // JSON has no infinity.
    if (std::isinf(base.max_absolute)) {
        json["max_abs"] = "inf";
    }
    json["max_tensor"] = json_or_null(base.max_tensor);
    json["extra"] = base.extra;
    json["missing"] = base.missing;
    json["shapes"] = base.shapes;
    return json;
}

ordered_json quotas_json(const std::optional<std::vector<std::string>>& quotas) {
    return quotas && !quotas->empty() ? ordered_json(*quotas) : ordered_json();
}

template <typename T>
ordered_json json_list(const std::vector<T>& values) {
    return collect_list(values, [](const T& value) { return json_of(value); });
}

template ordered_json json_list(const std::vector<catalogue::Ignored>& values);
template ordered_json json_list(const Warnings& values);
template ordered_json json_list(const std::vector<OddTensor>& values);
template ordered_json json_list(const std::vector<FileEntry>& values);
template ordered_json json_list(const std::vector<MixedInput>& values);

std::string json_text(const ordered_json& json) {
    return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

void print_json(std::ostream& out, const ordered_json& json, const std::string& list,
                std::size_t size, const std::function<ordered_json(std::size_t)>& item) {
    const std::string text = json_text(json);
    // No text within the JSON has a line's end in it.
    const std::string empty = "\n  \"" + list + "\": []";
    const std::size_t at = text.find(empty) + empty.size() - 1;
    out << std::string_view(text).substr(0, at);
    for (std::size_t i = 0; i < size; ++i) {
        std::string alone = json_text(item(i));
        alone.pop_back();
        out << (i == 0 ? "\n    " : ",\n    ") << replaced(std::move(alone), "\n", "\n    ");
    }
    out << (size > 0 ? "\n  " : "") << std::string_view(text).substr(at);
}

namespace {

ordered_json input_json(const RunReport& run, const OutputReport& output) {
    return {{"dir", run.input.directory},
            {"format", run.input.format},
            {"facts", ordered_json(run.input.facts)},
            {"notes", hidden(run.input.notes)},
            {"files", run.input.n_files},
            {"bytes", run.input.bytes},
            {"metadata_reads", run.metadata_reads},
            {"sha256", json_list(run.input_sums)},
            {"stamps", collect_list(output.made_of.value_or(MadeOf()).inputs, stamp_json)}};
}

}  // namespace

std::string to_json(const RunReport& run, const OutputReport& output) {
    ordered_json json = {{"schema", kReportSchema}};
    json["tool"] = {{"version", version()}, {"git", git_version()}};
    json["command"] = run.command;
    json["target"] = json_or_null(output.target);
    json["model_class"] = json_or_null(output.model_class);
    json["exit"] = {{"code", static_cast<int>(run.code)}, {"name", std::string(name_of(run.code))},
                    {"message", run.failure.what()},      {"where", run.failure.context()},
                    {"hint", hint_of(run.failure)},       {"detail", run.failure.detail()}};
    json["exit"] = hidden(std::move(json["exit"]));
    json["environment"] = hidden(environment_json(run));
    json["input"] = input_json(run, output);
    json["output"] = output_json(output.made_of);
    json["published"] = output.is_published;
    json["provenance"] = json_of(run.input.provenance);
    json["mixed"] = json_list(run.mixed);
    json["recipe"] = {{"name", json_or_null(run.recipe)},
                      {"verified", std::string(models::name_of(run.verification.level))},
                      {"by", run.verification.by}};
    json["plan"] = {{"hash", json_or_null(output.plan_hash)},
                    {"strategy", json_or_null(run.strategy)},
                    {"why", run.why},
                    {"rounds", run.rounds},
                    {"metadata_bytes", output.metadata_bytes},
                    {"once_a_node", json_or_null(run.is_planned_once)}};
    json["quotas"] = quotas_json(output.quotas);
    json["phases"] = collect_list(run.phases, phase_json);
    json["resume"] = output.resumed
                         ? ordered_json({{"blocks_reused", output.resumed->blocks_reused},
                                         {"bytes_reused", output.resumed->bytes_reused},
                                         {"bytes_read_back_earlier", output.resumed->bytes_seen},
                                         {"bytes_redone", output.resumed->bytes_redone}})
                         : ordered_json();
    json["crc"] = run.crc ? crc_json(*run.crc) : ordered_json();
    json["ranks"] = ranks_json(run, output);
    json["ledger"] = json_of(output.ledger);
    if (!output.supplement.empty()) {
        json["supplement"] = output.supplement;
    }
    json["files"] = json_list(output.files);
    json["side_files"] = output.side_files;
    json["tensors"] = ordered_json::array();
    json["sanity"] = {{"checked", output.odd.has_value()},
                      {"tensors", json_list(output.odd.value_or(std::vector<OddTensor>()))}};
    json["base"] = output.base ? json_of(*output.base) : ordered_json();
    json["warnings"] = json_list(all_warnings(run, output));
    json["root"] = json_or_null(output.root);
    std::ostringstream text = text_stream();
    print_json(text, json, "tensors", output.tensors.size(),
               [&](std::size_t i) { return json_of(output.tensors[i]); });
    return std::move(text).str();
}

void write_report(const RunReport& run, const OutputReport& output, const fs::path& path,
                  bool sync) {
    write_json(to_json(run, output), path, sync);
}

void write_json(const std::string& text, const fs::path& path, bool sync) {
    publish::write_report(text, path, sync);
}

Report read_reported_output(const fs::path& path) {
    return parse_reported_output(io::read_text(path, kLongestReport), path, true);
}

Report parse_reported_output(const std::string& text, const fs::path& path, bool has_checksums) {
    const Json root = parse_with_nonfinite(text);
    if (root.is_discarded()) {
        throw Error(ErrorCode::corrupt,
                    path.string() + " is not a report of a merge: it is not JSON", kOwnReport);
    }
    try {
        return output_in(root, path.string(), has_checksums);
    } catch (const Json::exception& error) {
        throw Error(
            ErrorCode::corrupt,
            path.string() + " is not a report of a merge: " + printable(reason_in(error.what())),
            kOwnReport);
    }
}

std::string file_beside(const std::string& file) {
    constexpr std::array<std::string_view, 2> kDirectories = {"lora_adapter/", "optimizer/"};
    const bool is_beside = file.ends_with(".safetensors") &&
                           std::ranges::any_of(kDirectories, [&](std::string_view directory) {
                               return file.starts_with(directory);
                           });
    return is_beside ? file : "";
}

namespace {

std::string shown_name(const TensorEntry& tensor) {
    const std::string beside = file_beside(tensor.file);
    return printable(tensor.name) + (beside.empty() ? "" : " of " + beside);
}

}  // namespace

std::vector<std::string> output_differences(const OutputReport& reported,
                                            const OutputReport& found) {
    // What lies below a model's directory may have the names of the model's tensors.
    const auto place_of = [](const TensorEntry& tensor) {
        return std::pair(file_beside(tensor.file), tensor.name);
    };
    std::map<std::pair<std::string, std::string>, const TensorEntry*> left;
    for (const TensorEntry& tensor : found.tensors) {
        left[place_of(tensor)] = &tensor;
    }
    std::vector<std::string> lines;
    for (const TensorEntry& expected : reported.tensors) {
        const auto at = left.find(place_of(expected));
        const std::string name = shown_name(expected);
        if (at == left.end()) {
            lines.push_back(name + " is missing");
            continue;
        }
        const TensorEntry& tensor = *at->second;
        if (kind_of(tensor) != kind_of(expected)) {
            lines.push_back(name + " is " + kind_of(tensor) + ", the report says " +
                            kind_of(expected));
        } else if (tensor.digest != expected.digest) {
            lines.push_back(name + " has the checksum " + tensor.digest + ", the report says " +
                            printable(expected.digest));
        }
        left.erase(at);
    }
    for (const auto& [place, tensor] : left) {
        lines.push_back(shown_name(*tensor) + " is not in the report");
    }
    if (lines.empty() && reported.root != found.root) {
        lines.push_back("the digest over all tensors is " + found.root + ", the report says " +
                        printable(reported.root));
    }
    return lines;
}

}  // namespace shardweld::app
