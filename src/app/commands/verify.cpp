// The command verify: re-reads an output against the format's rules, its index and its report.

#include <nlohmann/json.hpp>

#include "app/merge/completed.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "core/text.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kVerifySchema = 1;

std::string text_of(const Findings& findings, const fs::path& directory) {
    const WrittenModel& model = findings.model;
    const std::string tensors = counted(model.tensors.size(), "tensor");
    std::vector<std::vector<std::string>> rows = {
        {"directory", directory.string()},
        {"files", counted(model.files.size(), "file") + ", " + tensors + ", " +
                      human_bytes(model.tensor_bytes()) + ": headers, offsets and sizes keep " +
                      (model.is_gguf ? "GGUF's" : "the safetensors") + " rules"},
        {"index", model.has_index ? "agrees with the files" : "none, and none is needed"},
        {"config.json", model.config_dtype.empty() ? "states no dtype"
                        : model.is_gguf            ? "states the dtype before blocks were made"
                                                   : model.config_dtype + ", as the tensors"}};
    if (!findings.has_report) {
        rows.push_back({"contents", "NOT CHECKED: give the merge's report with --report FILE"});
    } else if (findings.differences.empty()) {
        rows.push_back(
            {"contents", tensors + " as the report's checksums say, root " + findings.root});
    }
    if (findings.n_hashed > 0 && findings.differences.empty()) {
        rows.push_back({"sha256", counted(findings.n_hashed, "file") + " as the report says"});
    }
    std::string text = table({Align::left, Align::left}, rows);
    for (const std::string& line : findings.differences) {
        text += "differs: " + line + "\n";
    }
    return text;
}

std::string findings_json(const Findings& findings, const fs::path& directory) {
    const WrittenModel& model = findings.model;
    ordered_json json = {{"schema", kVerifySchema},
                         {"directory", directory.string()},
                         {"files", model.files.size()},
                         {"tensors", model.tensors.size()},
                         {"tensor_bytes", model.tensor_bytes()},
                         {"index", model.has_index},
                         {"dtype", model.config_dtype},
                         {"contents_checked", findings.has_report},
                         {"files_hashed", findings.n_hashed}};
    json["root"] = findings.has_report ? ordered_json(findings.root) : ordered_json();
    json["differences"] = findings.differences;
    return json_text(json);
}

}  // namespace

int verify(mpi::Comm& comm, const Options& options, std::ostream& out, Log& log) {
    const Findings findings = verify_model(
        comm, options, {options.local_dir, {}, {}, options.report}, options.sha256, log);
    if (!findings.has_report) {
        log.warning("no report was given: the tensors' contents were not checked");
    }
    print(comm, out, [&] {
        return options.json ? findings_json(findings, options.local_dir)
                            : text_of(findings, options.local_dir);
    });
    if (!findings.differences.empty()) {
        throw Error(ErrorCode::differs, counted(findings.differences.size(), "difference") +
                                            " between " + options.local_dir.string() +
                                            " and the report: " + findings.differences.front() +
                                            (findings.differences.size() > 1 ? ", ..." : ""));
    }
    return 0;
}

}  // namespace shardweld::app
