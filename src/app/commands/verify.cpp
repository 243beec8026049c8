// The command verify: re-reads an output against the format's rules, its index and its report.
// Knows the order of the steps; each step is another module's.

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "shardweld/core/text.hpp"
#include "shardweld/io/input_file.hpp"
#include "shardweld/io/paths.hpp"
#include "shardweld/mpi/share.hpp"

#include "../cli/table.hpp"
#include "../compare/reference_model.hpp"
#include "../compare/written_model.hpp"
#include "../merge/main_path.hpp"
#include "../merge/moving.hpp"
#include "../report/json_parts.hpp"
#include "../report/reported_output.hpp"
#include "commands.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kVerifySchema = 1;

/// What was found to be in order, or not.
struct Findings {
    WrittenModel model;
    bool has_report = false;
    std::size_t n_hashed = 0;  ///< files of which the SHA-256 was compared
    std::string root;
    std::vector<std::string> differences;
};

/// Collective. Reads all tensors; checksums on rank 0.
ReportedOutput compute_output(Session& session, const WrittenModel& model,
                              const ReportedOutput& reported) {
    Input input;
    input.directory = session.options.local_dir;
    input.files = model.files;
    input.visibility = plan::Visibility::everywhere(session.comm.size(), model.files.size());
    auto targets = targets_of(model.tensors);
    const auto blocks = mpi::share(session.comm, 0, [&] {
        std::map<std::string, Bytes> by_name;
        for (const ReportedTensor& tensor : reported.tensors) {
            by_name[tensor.name] = tensor.block;
        }
        return by_name;
    });
    for (plan::Target& target : targets) {
        const auto block = blocks.find(target.name);
        target.block =
            block == blocks.end() ? 0 : static_cast<Index>(block->second / size_of(target.dtype));
    }
    Planned planned = make_ready_as_stored(session, {}, std::move(input), std::move(targets));
    execute::RunOptions run;
    run.write = false;
    const io::Directory nowhere{fs::path()};
    (void)move_tensors({{session, planned, nowhere, std::move(run)}});
    ReportedOutput output;
    for (const TensorEntry& tensor : session.report.tensors) {
        output.tensors.push_back(
            {tensor.name, std::string(torch_name(tensor.dtype)), tensor.shape, tensor.digest, 0});
    }
    output.root = session.report.root;
    return output;
}

void require_hashes(const ReportedOutput& reported, const Options& options) {
    const bool has_all = !reported.files.empty() &&
                         std::all_of(reported.files.begin(), reported.files.end(),
                                     [](const FileEntry& file) { return !file.sha256.empty(); });
    if (options.sha256 && !has_all) {
        throw Error(ErrorCode::usage, options.report->string() + " holds no sha256",
                    "verify without --sha256, or merge with it");
    }
}

void check_contents(Session& session, Findings& findings) {
    mpi::Comm& comm = session.comm;
    const Options& options = session.options;
    ReportedOutput reported;
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            reported = read_reported_output(*options.report);
            require_hashes(reported, options);
        }
    });
    const ReportedOutput found = compute_output(session, findings.model, reported);
    findings.has_report = true;
    findings.root = found.root;
    std::vector<std::string> differences = output_differences(reported, found);
    if (options.sha256) {
        const auto listed_names = [&] {
            std::vector<std::string> names;
            for (const FileEntry& file : reported.files) {
                names.push_back(file.name);
            }
            return names;
        };
        const auto open = [&](const std::string& name) {
            const fs::path path = options.local_dir / name;
            return io::kind_at(path) == io::FileKind::none
                       ? std::nullopt
                       : std::optional(io::InputFile::open(path));
        };
        const auto hashed = hash_files(comm, open, 0, listed_names, session.throttle.get(), {},
                                       shown(session.progress, "hashing files"));
        const auto more = file_differences(reported.files, hashed);
        differences.insert(differences.end(), more.begin(), more.end());
        findings.n_hashed = reported.files.size();
    }
    findings.differences = mpi::share(comm, 0, [&] { return differences; });
}

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

std::vector<std::string> differences_from_report(mpi::Comm& comm, const Options& options,
                                                 Log& log) {
    Findings findings;
    findings.model = mpi::share(comm, 0, [&] { return read_written_model(options.local_dir); });
    Unreported run(comm, options, log, log);
    check_contents(run.session(), findings);
    return findings.differences;
}

int verify(mpi::Comm& comm, const Options& options, Log& log) {
    Findings findings;
    findings.model = mpi::share(comm, 0, [&] { return read_written_model(options.local_dir); });
    if (options.report) {
        Unreported run(comm, options, log, log);
        check_contents(run.session(), findings);
    } else {
        log.warning("no report was given: the tensors' contents were not checked");
    }
    print(comm, [&] {
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
