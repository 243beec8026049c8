#include "completed.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "app/compare/stored_tensor.hpp"
#include "app/report/files_beside.hpp"
#include "app/report/report_json.hpp"
#include "app/report/rest_digests.hpp"
#include "core/error_of.hpp"
#include "core/in_context.hpp"
#include "core/text.hpp"
#include "formats/containers/safetensors_header.hpp"
#include "io/digest.hpp"
#include "io/input_file.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "publish/report_file.hpp"
#include "publish/target.hpp"

#include "move_tensors.hpp"
#include "plan_outputs.hpp"
#include "resumption.hpp"

namespace shardweld::app {

namespace {

/// Files of tensors that lie below a model's directory.
constexpr std::array<const char*, 4> kFilesBeside = {kAdapterWeights, "optimizer/param.safetensors",
                                                     "optimizer/exp_avg.safetensors",
                                                     "optimizer/exp_avg_sq.safetensors"};

/// Adds the tensors of those files that are there to the model's. Error(corrupt) for one that is no
/// safetensors.
void add_files_beside(const fs::path& directory, WrittenModel& model) {
    for (const char* const name : kFilesBeside) {
        if (io::kind_at(directory / name) == io::FileKind::none) {
            continue;
        }
        const auto file = io::InputFile::open(directory / name);
        const auto number = static_cast<std::uint32_t>(model.files.size());
        model.files.push_back({name, file.size()});
        in_context("file ", name, [&] {
            for (const auto& [tensor, stored] : formats::read_safetensors_header(file)) {
                model.tensors.push_back(stored_tensor(tensor, stored, number));
            }
        });
    }
}

/// Collective. Reads all tensors; their checksums are in the first rank's report.
void compute_checksums(const Run& run, const WrittenModel& model, const Report& reported) {
    Merge merge = begin_merge(run);
    merge.input.directory = merge.first().asked().directory;
    merge.input.files = model.files;
    merge.input.visibility = plan::Visibility::everywhere(run.comm.size(), model.files.size());
    auto targets = targets_of(model.tensors);
    for (const std::size_t at : indices(targets)) {
        targets[at].file = file_beside(model.files[model.tensors[at].pieces.front().file].path);
    }
    const auto blocks = mpi::share(run.comm, 0, [&] {
        std::map<std::pair<std::string, std::string>, Bytes> by_place;
        for (const TensorEntry& tensor : reported.tensors) {
            by_place[{file_beside(tensor.file), tensor.name}] = tensor.block;
        }
        return by_place;
    });
    for (plan::Target& target : targets) {
        auto* const block = find_value(blocks, std::pair(target.file, target.name));
        target.block = block == nullptr ? 0 : static_cast<Index>(*block / size_of(target.dtype));
    }
    merge.halves_memory = false;
    plan_as_stored(run, merge, std::move(targets));
    std::vector<execute::RunOptions> how(1);
    how.front().write = false;
    move_tensors(run, merge, std::move(how));
}

OpenFile open_below(const fs::path& directory) {
    return [&directory](const std::string& name) {
        const fs::path path = directory / name;
        return io::kind_at(path) == io::FileKind::none ? std::nullopt
                                                       : std::optional(io::InputFile::open(path));
    };
}

void require_hashes(const Report& reported, const fs::path& report) {
    const bool has_all =
        !reported.files.empty() && std::ranges::all_of(reported.files, [](const FileEntry& file) {
            return !file.sha256.empty();
        });
    if (!has_all) {
        throw Error(ErrorCode::usage, report.string() + " holds no sha256",
                    "verify without --sha256, or merge with it");
    }
}

/// Collective. What differs in the bytes that are no tensor's, of files whose report has their
/// checksum.
std::vector<std::string> changes_of_rests(const Run& run, const fs::path& directory,
                                          const WrittenModel& model, const Report& reported) {
    const auto names = mpi::share(run.comm, 0, [&] {
        return collect_list(reported.files, &FileEntry::name,
                            [&](const FileEntry& file) { return !file.rest.empty(); });
    });
    TensorsInFiles tensors;
    for (const catalogue::Tensor& tensor : model.tensors) {
        const catalogue::Piece& piece = tensor.pieces.front();
        tensors[model.files[piece.file].path].push_back(
            {piece.base, piece.base + piece.storage_bytes});
    }
    TensorsInFiles files;
    for (const std::string& name : names) {
        files[name] = tensors[name];
    }
    return rest_differences(reported.files, rest_digests(run, files, open_below(directory), {}));
}

void check_contents(const Run& run, bool has_hashes, VerifyResult& findings) {
    mpi::Comm& comm = run.comm;
    const OutputReport& output = run.report->outputs.front();
    const fs::path& report = output.asked.report.value();
    Report reported;
    mpi::on_first(comm, [&] {
        reported = read_reported_output(report);
        if (has_hashes) {
            require_hashes(reported, report);
        }
    });
    compute_checksums(run, findings.model, reported);
    findings.has_report = true;
    findings.root = output.root;
    std::vector<std::string> differences = output_differences(reported, output);
    const auto around = changes_of_rests(run, output.asked.directory, findings.model, reported);
    append_all(differences, around);
    if (has_hashes) {
        const auto listed_names = [&] { return collect_list(reported.files, &FileEntry::name); };
        const auto hashed =
            hash_files(run, 0, listed_names, open_below(output.asked.directory), {});
        const auto more = file_differences(reported.files, hashed);
        append_all(differences, more);
        findings.n_hashed = reported.files.size();
    }
    findings.differences = mpi::share(comm, 0, [&] { return differences; });
}

/// Where the report of a written model is: where it was said to be, else in the directory; "" where
/// there is none. Local.
fs::path report_of(const JobOutput& output) {
    const fs::path kept = output.directory / publish::kKeptReport;
    return output.report                             ? *output.report
           : io::kind_at(kept) == io::FileKind::file ? kept
                                                     : fs::path();
}

/// Whether it is of a training checkpoint, whose files hold no model.
bool is_of_training(const Report& report) {
    const MadeOf made = report.made_of.value_or(MadeOf());
    return std::ranges::any_of(made.options, [](const std::string& option) {
        return (option.starts_with("--to ") && option != "--to hf") || option == "--like";
    });
}

/// Why a file is not there as the report lists it; nullopt if it is.
std::optional<Error> fault_of(const fs::path& directory, const FileEntry& file) {
    std::error_code failed;
    const auto size = fs::file_size(directory / file.name, failed);
    if (failed) {
        return Error(ErrorCode::not_found, printable(file.name) + " is missing");
    }
    if (size != file.bytes) {
        return Error(ErrorCode::corrupt, printable(file.name) + " has " + std::to_string(size) +
                                             " bytes, not " + std::to_string(file.bytes));
    }
    return std::nullopt;
}

/// The tensors of a training checkpoint, where its report says that they lie.
WrittenModel as_reported(const fs::path& directory, const Report& report) {
    std::vector<Error> problems;
    WrittenModel model;
    model.is_training = true;
    std::map<std::string, std::uint32_t> numbers;
    for (const FileEntry& file : report.files) {
        if (auto fault = fault_of(directory, file)) {
            problems.push_back(std::move(*fault));
        }
        numbers.emplace(file.name, static_cast<std::uint32_t>(model.files.size()));
        model.files.push_back({file.name, file.bytes});
    }
    require_sound(directory.string(), problems);
    for (const TensorEntry& entry : report.tensors) {
        catalogue::Tensor tensor{entry.name, entry.dtype, entry.shape, {}};
        catalogue::Piece piece;
        const auto file = numbers.find(entry.file);
        const Bytes size = file == numbers.end() ? 0 : model.files[file->second].size;
        const Bytes needed =
            to_bytes(volume_of(entry.shape, entry.name), entry.name) * size_of(entry.dtype);
        if (file == numbers.end() || entry.bytes != needed || entry.offset > size ||
            entry.bytes > size - entry.offset) {
            throw Error(ErrorCode::corrupt,
                        "the report says that " + printable(entry.name) + " lies where " +
                            printable(entry.file) + " has no room for it",
                        "give the report of this directory");
        }
        piece.file = file->second;
        piece.base = entry.offset;
        piece.storage_bytes = entry.bytes;
        piece.patch = layout::dense_shape(entry.shape);
        tensor.pieces.push_back(piece);
        model.tensors.push_back(std::move(tensor));
    }
    return model;
}

/// What lies in a directory: as its report, or what a mount says, lists it where that is of a
/// training checkpoint.
WrittenModel written_in(const fs::path& directory, const fs::path& report,
                        const std::string& listing) {
    if (!report.empty() || !listing.empty()) {
        const Report reported = report.empty() ? parse_reported_output(listing, directory, false)
                                               : read_reported_output(report);
        if (is_of_training(reported)) {
            return as_reported(directory, reported);
        }
    }
    WrittenModel model = read_written_model(directory);
    add_files_beside(directory, model);
    return model;
}

std::string change_of_options(const std::vector<std::string>& then,
                              const std::vector<std::string>& now) {
    const auto text = [](const std::vector<std::string>& options) {
        return options.empty() ? std::string("no such options") : printable(joined(options, " "));
    };
    return then == now ? "" : "it was made with " + text(then) + ", this is " + text(now);
}

/// Reads the report of an output. Why that does not tell of what this merge would write; "" if it
/// does.
std::string why_not_reported(const Job& job, const JobOutput& output, const Merge& merge,
                             Report& told) {
    const fs::path report = report_of(output);
    if (report.empty()) {
        return std::string("it holds no ") + publish::kKeptReport + " that tells what it is";
    }
    if (io::kind_at(report) == io::FileKind::none) {
        return "its report " + report.string() + " is not there";
    }
    if (const auto failure = error_of([&] { told = read_reported_output(report); })) {
        return failure->what();
    }
    const MadeOf made = told.made_of.value_or(MadeOf());
    const std::string& from = told.input.directory;
    const fs::path input = io::resolved(merge.weights().location.directory);
    if (made.target.empty()) {
        return report.string() + " does not say of which directory it is";
    }
    if (made.target != io::resolved(output.directory)) {
        return report.string() + " is the report of " + made.target;
    }
    if (io::resolved(from) != input) {
        return "it was made from " + from + ", not from " + input.string();
    }
    if (merge.model_files && config_digest(merge.model_files->config_text) != made.config) {
        return "the model's config.json has changed since";
    }
    return change_of_options(made.options, way_of(job, output).options);
}

/// Collective; `inputs` are the first rank's. The first input that is not what it was; "" if there
/// is none. Times count where the first rank sees the file: copies on other hosts have their own.
std::string change_of_inputs(mpi::Comm& comm, FileVisibility& visibility,
                             const std::vector<publish::InputFact>& inputs) {
    const auto names = mpi::share(
        comm, 0, [&] { return collect_list<std::string>(inputs, &publish::InputFact::name); });
    const SizesByGroup sizes = visibility.sizes_of(names);
    const std::vector<io::FileStamp> stamps = visibility.stamps(names);
    return mpi::share(comm, 0, [&]() -> std::string {
        for (const std::size_t at : indices(inputs)) {
            Index size = -1;
            for (const std::vector<Index>& group : sizes) {
                size = std::max(size, group[at]);
            }
            const Index time = stamps[at].modified_ns;
            if (size != static_cast<Index>(inputs[at].stamp.size) ||
                (time >= 0 && time != inputs[at].stamp.modified_ns)) {
                return "the input " + printable(names[at]) +
                       (size < 0 ? " is gone" : " was written again") + " since";
            }
        }
        return "";
    });
}

/// The first file of the output that is not there as the report lists it; "" if there is none.
std::string fault_of(const fs::path& target, const Report& output) {
    for (const FileEntry& file : output.files) {
        if (const auto fault = fault_of(target, file)) {
            return fault->what();
        }
    }
    for (const std::string& name : output.side_files) {
        if (io::kind_at(target / name) != io::FileKind::file) {
            return printable(name) + " is missing";
        }
    }
    const auto broken = error_of([&] {
        if (!is_of_training(output)) {
            WrittenModel model = read_written_model(target);
            add_files_beside(target, model);
        }
    });
    return broken ? broken->what() : "";
}

/// Collective. The first tensor that is not the report's; "" if there is none.
std::string change_of_contents(const Run& run, const JobOutput& output) {
    const VerifyResult found = verify_model(run.comm, run.job, output, run.log);
    return found.differences.empty() ? "" : found.differences.front();
}

/// Collective. Whether anything lies at a target.
bool holds_anything(mpi::Comm& comm, const fs::path& target) {
    return mpi::share(comm, 0, [&] {
        return io::kind_at(target) == io::FileKind::directory && !io::entries_of(target).empty();
    });
}

/// Collective. Why an output is not known to be what this merge would write; "" if it
/// is: its report tells of a run with the same options that succeeded, the input files and
/// config.json are as they were then, and the output has the files and sizes of the report, with
/// headers and an index that keep the rules. With --if_complete verify all tensors are read, too:
/// Error(differs) where they are not the report's and --overwrite is not given.
std::string why_not_complete(const Run& run, Merge& merge, const JobOutput& output) {
    mpi::Comm& comm = run.comm;
    const fs::path& target = output.directory;
    if (!holds_anything(comm, target)) {
        return "there is nothing";
    }
    Report report;
    std::string why =
        mpi::share(comm, 0, [&] { return why_not_reported(run.job, output, merge, report); });
    if (why.empty()) {
        why = change_of_inputs(comm, merge.weights().visibility,
                               report.made_of.value_or(MadeOf()).inputs);
    }
    if (why.empty()) {
        why = mpi::share(comm, 0, [&] { return fault_of(target, report); });
    }
    if (why.empty() && run.job.run.if_complete == IfComplete::verify) {
        why = change_of_contents(run, output);
        if (!why.empty() && !run.job.run.overwrite) {
            throw Error(ErrorCode::differs,
                        target.string() + " is not what its report says: " + why,
                        "make it again with --overwrite");
        }
    }
    return why;
}

}  // namespace

VerifyResult verify_model(mpi::Comm& comm, const Job& job, const JobOutput& output, Log& log,
                          bool has_hashes, bool has_report, const std::string& listing) {
    VerifyResult findings;
    JobOutput with = output;
    with.report = has_report ? mpi::share(comm, 0, [&] { return report_of(output); }) : fs::path();
    findings.model =
        mpi::share(comm, 0, [&] { return written_in(output.directory, *with.report, listing); });
    if (!with.report->empty()) {
        check_contents(begin_run(comm, job, {with}, log, log), has_hashes, findings);
    } else if (has_hashes) {
        throw Error(ErrorCode::usage, "--sha256 needs a report, which holds the checksums",
                    "give the merge's report with --report FILE");
    }
    return findings;
}

std::string config_digest(const std::string& text) {
    return io::hex(io::digest_of(std::as_bytes(std::span(text))));
}

void leave_published(const Run& run, Merge& merge) {
    const fs::path& first = merge.first().asked().directory;
    const auto is_there = mpi::share(run.comm, 0, [&] {
        return collect_list<int>(merge.outputs, [&](const Output& one) {
            return &one != &merge.first() && !run.job.run.restart &&
                   publish::was_published(one.asked().directory, first);
        });
    });
    std::vector<Output> left;
    for (const std::size_t at : indices(merge.outputs)) {
        if (is_there[at] == 0) {
            left.push_back(std::move(merge.outputs[at]));
        } else {
            run.log.info(merge.outputs[at].asked().directory.string() +
                         " is complete: an earlier run was stopped behind it");
        }
    }
    merge.outputs.swap(left);
}

bool has_target(const Run& run, const Merge& merge) {
    return holds_anything(run.comm, merge.first().asked().directory);
}

std::string look_at_outputs(const Run& run, Merge& merge) {
    const JobOutput& first = merge.first().asked();
    std::vector<Output> left;
    for (Output& output : merge.outputs) {
        if (&output == &merge.first() || !why_not_complete(run, merge, output.asked()).empty()) {
            left.push_back({output.report});
        }
    }
    std::string why_not = why_not_complete(run, merge, first);
    run.report->is_left_alone = why_not.empty() && left.size() == 1;
    merge.outputs.swap(left);
    if (run.report->is_left_alone) {
        run.log.info(first.directory.string() + " is complete: " +
                     (run.job.run.if_complete == IfComplete::verify
                          ? "every tensor is what the report says"
                          : "files and sizes are what the report says"));
    }
    return why_not;
}

}  // namespace shardweld::app
