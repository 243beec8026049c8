#include "verification.hpp"

#include <algorithm>
#include <map>

#include "app/compare/reference_model.hpp"
#include "app/report/reported_output.hpp"
#include "core/text.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"

#include "main_path.hpp"
#include "moving.hpp"

namespace shardweld::app {

namespace {

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

}  // namespace

Findings verify_model(mpi::Comm& comm, const Options& options, Log& log) {
    Findings findings;
    findings.model = mpi::share(comm, 0, [&] { return read_written_model(options.local_dir); });
    if (options.report) {
        Unreported run(comm, options, log, log);
        check_contents(run.session(), findings);
    }
    return findings;
}

}  // namespace shardweld::app
