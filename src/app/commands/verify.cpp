// The command verify: re-reads an output against the format's rules, its index and its report; a
// mounted model is proved by its mount.

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include "app/merge/completed.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/runtime/mounts.hpp"
#include "core/text.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "publish/report_file.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

constexpr int kVerifySchema = 1;

/// What a mount knows of its bytes once it has read all of them for us, in words, and as a report
/// where they are a training checkpoint's; "" where nothing is mounted. The Error by which its
/// first read failed.
std::string proof_of(const fs::path& directory, std::string& listing) {
    const auto mounts = model_mounts();
    const fs::path point = io::resolved(directory);
    if (std::ranges::find(mounts, point, &ModelMount::point) == mounts.end()) {
        return "";
    }
    std::ifstream verify(point / ".shardweld" / "verify");  // whose size nobody knows before
    const auto told = ordered_json::parse(verify, nullptr, false);
    if (told.is_discarded()) {
        throw Error(ErrorCode::io, "the mount does not answer", "mount it again");
    }
    for (const ordered_json& failure : told["failures"]) {
        throw Error(static_cast<ErrorCode>(failure["code"].get<int>()),
                    failure["text"].get<std::string>());
    }
    if (!told["is_proved"]) {
        throw Error(ErrorCode::stopped, "the mount has not read all of the model",
                    "run the command again");
    }
    if (told["is_training"]) {
        listing = told["merge"].dump();
    }
    const ordered_json& records = told["records"];
    const auto checked = records["checked"].get<std::size_t>();
    const auto without = records["without"].get<std::size_t>();
    return "every byte was made" +
           (checked > 0
                ? ", and " + counted(checked, "record") + " of the source held against CRC-32"
                : std::string(", and no CRC-32 held against the source")) +
           (without > 0 ? "; " + std::to_string(without) + " without one" : "");
}

std::string text_of(const VerifyResult& findings, const fs::path& directory,
                    const std::string& proof) {
    const WrittenModel& model = findings.model;
    const std::string tensors = counted(model.tensors.size(), "tensor");
    Cells rows = {
        {"directory", directory.string()},
        {"files", counted(model.files.size(), "file") + ", " + tensors + ", " +
                      human_bytes(model.tensor_bytes()) + ": " +
                      (model.is_training ? "of a training checkpoint, as the report lists them"
                       : model.is_gguf   ? "valid GGUF"
                                         : "valid safetensors")}};
    if (!model.is_training) {
        rows.push_back(
            {"index", model.has_index ? "agrees with the files" : "not needed (one file)"});
        rows.push_back({"config.json", model.config_dtype.empty() ? "states no dtype"
                                       : model.is_gguf
                                           ? "dtype before quantising (" + model.config_dtype + ")"
                                           : "dtype matches (" + model.config_dtype + ")"});
    }
    if (!proof.empty()) {
        rows.push_back({"mount", proof});
    }
    if (!findings.has_report && proof.empty()) {
        rows.push_back(
            {"contents", "NOT CHECKED without a report; give the merge's with --report FILE"});
    } else if (findings.has_report && findings.differences.empty()) {
        rows.push_back({"contents", (model.tensors.size() == 1 ? "the only tensor matches"
                                                               : "all " + tensors + " match") +
                                        " the report's checksums (root " + findings.root + ")"});
    }
    if (findings.n_hashed > 0 && findings.differences.empty()) {
        rows.push_back({"sha256", counted(findings.n_hashed, "file") +
                                      (findings.n_hashed == 1 ? " matches" : " match") +
                                      " the report"});
    }
    return table({Align::left, Align::left}, rows) +
           add_up(findings.differences,
                  [](const std::string& line) { return "differs: " + line + "\n"; });
}

std::string findings_json(const VerifyResult& findings, const fs::path& directory, bool is_proved) {
    const WrittenModel& model = findings.model;
    ordered_json json = {{"schema", kVerifySchema},
                         {"ok", findings.differences.empty()},
                         {"dir", directory.string()},
                         {"directory", directory.string()},
                         {"files", model.files.size()},
                         {"tensors", model.tensors.size()},
                         {"tensor_bytes", model.tensor_bytes()},
                         {"index", model.has_index},
                         {"dtype", model.config_dtype},
                         {"contents_checked", findings.has_report || is_proved},
                         {"files_hashed", findings.n_hashed}};
    json["root"] = findings.has_report ? ordered_json(findings.root) : ordered_json();
    json["differences"] = findings.differences;
    return json_text(json);
}

}  // namespace

int verify(mpi::Comm& comm, const Job& job, std::ostream& out, Log& log) {
    const fs::path& directory = job.inputs.front().directory;
    std::string listing;
    const std::string proof = mpi::share(comm, 0, [&] { return proof_of(directory, listing); });
    const bool has_no_report = job.has("report") && !job.outputs.front().report;
    const VerifyResult findings =
        verify_model(comm, job, {directory, {}, {}, job.outputs.front().report}, log,
                     job.run.sha256, !has_no_report, listing);
    if (!findings.has_report && proof.empty()) {
        log.warning(has_no_report
                        ? "--report none: the tensors' contents were not checked"
                        : "the directory holds no " + std::string(publish::kKeptReport) +
                              ", and --report gives none: the tensors' contents were not checked");
    }
    print(comm, out, [&] {
        return job.run.json ? findings_json(findings, directory, !proof.empty())
                            : text_of(findings, directory, proof);
    });
    if (!findings.differences.empty()) {
        throw Error(ErrorCode::differs, counted(findings.differences.size(), "difference") +
                                            " between " + directory.string() +
                                            " and the report, listed above");
    }
    return 0;
}

}  // namespace shardweld::app
