#include "input.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "app/report/file_hashes.hpp"
#include "core/text.hpp"
#include "formats/containers/zip.hpp"
#include "formats/shared/directory_listing.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"
#include "mpi/share.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using formats::Location;
using Sums = std::map<std::string, std::string>;

constexpr const char* kSource = "the SHA-256 that the save lists";

bool reads_weights(const Run& run) {
    return run.job.command == Command::merge || run.job.command == Command::test;
}

bool is_shard(const Location& location, const std::string& name) {
    return contains(location.shard_files, name);
}

/// The names of the list, shards at the end.
std::vector<std::string> listed_names(const Sums& sums, const Location& location) {
    std::vector<std::string> names = collect_list(sums, [](const auto& one) { return one.first; });
    std::stable_partition(names.begin(), names.end(),
                          [&](const std::string& name) { return !is_shard(location, name); });
    return names;
}

/// Each file is read by one rank that sees it.
std::vector<FileEntry> hashed_together(const Run& run, Checkpoint& found,
                                       const std::vector<std::string>& names,
                                       const SizesByGroup& sizes) {
    std::vector<FileEntry> files;
    for (const std::size_t file : indices(names)) {
        Index size = 0;
        for (const std::vector<Index>& group : sizes) {
            size = std::max(size, group[file]);
        }
        files.push_back({names[file], static_cast<Bytes>(size), {}});
    }
    const auto open = [&](const std::string& name) {
        return std::optional(io::InputFile::open(found.location.directory / name));
    };
    hash_files(run, "checking SHA-256", files, ranks_for_all(sizes, found.visibility.hosts()), open,
               {});
    run.progress->end();
    std::ranges::sort(files, {}, &FileEntry::name);
    return files;
}

void require_sums(const std::vector<FileEntry>& files, const Sums& sums,
                  const fs::path& directory) {
    std::vector<std::string> wrong =
        collect_list(files, &FileEntry::name,
                     [&](const FileEntry& file) { return sums.at(file.name) != file.sha256; });
    if (!wrong.empty()) {
        throw Error(
            ErrorCode::corrupt,
            directory.string() + ": " + std::to_string(wrong.size()) + " of " +
                std::to_string(files.size()) +
                " files have not the SHA-256 that the save lists for them: " + listed(wrong),
            "copy them again from where they were saved");
    }
}

std::string note_on(const std::vector<FileEntry>& files, std::size_t n_listed) {
    const Bytes bytes = add_up(files, &FileEntry::bytes);
    const std::size_t n_left = n_listed - files.size();
    return "the SHA-256 of " + counted(files.size(), "file") + " (" + human_bytes(bytes) +
           ") is the one that the save lists" +
           (n_left > 0 ? "; those of " + counted(n_left, "other") + " are not checked here" : "");
}

void state(const std::vector<FileEntry>& files, std::size_t n_listed, Location& location) {
    for (const FileEntry& file : files) {
        location.statements.push_back({file.name,
                                       kSource,
                                       {{"name", file.name}},
                                       {{"list", std::to_string(n_listed) + " files"}},
                                       true});
    }
}

/// Collective. Each file is read by one rank that sees it: all of the list where the run reads the
/// weights, else those that are no shards; none under --check_crc off. Adds to the location what
/// was found right, as a statement of each file and a note, and returns it. Error(not_found) naming
/// files that no rank sees, Error(corrupt) naming those of another sum.
std::vector<FileEntry> check_listed_sums(const Run& run, Checkpoint& found) {
    Location& location = found.location;
    const Sums sums =
        mpi::share(run.comm, found.home, [&] { return formats::listed_sums(location.directory); });
    if (sums.empty()) {
        return {};
    }
    std::vector<std::string> names = listed_names(sums, location);
    check_seen(found.visibility.sizes_of(names), names, location.directory,
               found.visibility.hosts());
    if (run.job.run.check_crc == CheckCrc::off) {
        location.notes.push_back("the SHA-256 that the save lists of " +
                                 counted(names.size(), "file") +
                                 " is not checked (--check_crc off)");
        return {};
    }
    if (!reads_weights(run)) {
        std::erase_if(names, [&](const std::string& name) { return is_shard(location, name); });
    }
    auto files = hashed_together(run, found, names, found.visibility.sizes_of(names));
    mpi::collectively(run.comm, [&] { require_sums(files, sums, location.directory); });
    location.notes.push_back(note_on(files, sums.size()));
    state(files, sums.size(), location);
    return files;
}

/// The name of the record that lies there, for a message; an archive inside a larger file is not
/// looked into.
std::string record_at(const fs::path& path, Bytes offset) {
    try {
        const io::InputFile file = io::InputFile::open(path);
        const auto archive = formats::ZipArchive::read(file, 0, file.size());
        for (const formats::NamedZipEntry& entry : archive.entries) {
            if (entry.entry.offset == offset) {
                return "record " + printable(std::string(entry.name)) + " ";
            }
        }
    } catch (const Error&) {
        // The bytes are named anyway.
    }
    return "the record ";
}

}  // namespace

std::shared_ptr<execute::RecordSums> record_sums(
    const fs::path& directory, std::span<const catalogue::File> files, catalogue::Records records,
    std::optional<std::vector<execute::RecordSums::RecordUse>> uses) {
    auto name_of = [directory, files](const catalogue::StorageRecord& record,
                                      std::string_view tensor) {
        const fs::path path = directory / files[record.file].path;
        return execute::RecordSums::RecordName{
            record_at(path, record.offset) + "(" + std::to_string(record.bytes) + " bytes at " +
                std::to_string(record.offset) + ", tensor " + printable(tensor) + ")",
            path.string()};
    };
    return uses ? std::make_shared<execute::RecordSums>(std::move(records), *std::move(uses),
                                                        std::move(name_of))
                : std::make_shared<execute::RecordSums>(std::move(records), std::move(name_of));
}

Checkpoint find_shown(const Run& run, const formats::JobInput& request) {
    run.progress->begin("looking at files" +
                        Checkpoint{request.use, request.directory, {}}.of_role());
    Checkpoint found = find_checkpoint(run.comm, request);
    run.progress->end();
    return found;
}

void check_sums_shown(const Run& run, Checkpoint& found) {
    const auto sums = check_listed_sums(run, found);
    append_all(run.report->input_sums, sums);
}

void read_shown(const Run& run, Checkpoint& found) {
    read_checkpoint(run.comm, found,
                    shown(*run.progress, "reading metadata" + found.of_role(), "files"));
    run.progress->end();
}

Checkpoint survey_shown(const Run& run, const formats::JobInput& request) {
    Checkpoint found = find_shown(run, request);
    check_sums_shown(run, found);
    read_shown(run, found);
    return found;
}

Input input_of(Checkpoint& read, const RankMemory& memory, bool is_checked,
               std::span<const Checkpoint> behind) {
    catalogue::Records records = catalogue::records_of(read.catalogue);
    for (const Checkpoint& more : behind) {
        catalogue::append(records, catalogue::records_of(more.catalogue));
    }
    Input input{read.location.directory,
                read.catalogue.files,
                std::move(read.seen),
                std::move(read.stamps),
                std::move(read.digests),
                read.n_reads,
                read.home,
                nullptr,
                is_checked,
                memory};
    input.sums = record_sums(input.directory, input.files, std::move(records));
    return input;
}

execute::SourceFiles source_of(const Run& run, const Input& input) {
    execute::SourceFiles source{input.directory,
                                &input.files,
                                run.job.run.max_open,
                                run.throttle,
                                {},
                                input.stamps.empty() ? nullptr : &input.stamps,
                                input.is_checked ? input.sums : nullptr};
    if (run.log.is_kept()) {
        source.on_open = [&log = run.log](const fs::path& file) {
            log.write_own("opens " + printable(file.string()));
        };
    }
    return source;
}

execute::RecordCounts check_shown(const Run& run, const Input& input,
                                  execute::Completion completion, const mpi::WhyStop& why_stop) {
    const execute::RecordCounts counts =
        execute::check_records(run.comm, *input.sums, source_of(run, input), input.visibility,
                               completion, why_stop, shown(*run.progress, "checking checksums"));
    run.progress->end();
    return counts;
}

std::optional<execute::RecordCounts> check_what_was_read(const Run& run, const Input& input,
                                                         const mpi::WhyStop& why_stop) {
    return input.is_checked && input.sums
               ? std::optional(check_shown(run, input, execute::Completion::cheap, why_stop))
               : std::nullopt;
}

void report_what_was_read(const Run& run, const Input& input, const mpi::WhyStop& why_stop) {
    if (auto counts = check_what_was_read(run, input, why_stop)) {
        run.report->crc = counts;
    }
}

std::string text_of(const execute::RecordCounts& counts, CheckCrc when) {
    if (counts.checked == 0 && counts.unchecked == 0) {
        return when == CheckCrc::before ? "--check_crc: no file states a CRC-32" : "";
    }
    std::string text = "the CRC-32 of " + std::to_string(counts.checked) + " records (" +
                       human_bytes(counts.checked_bytes) + ") and of their metadata is right";
    if (counts.without > 0) {
        text += "; " + std::to_string(counts.without) + " state none";
    }
    if (counts.unchecked > 0) {
        text += "; " + std::to_string(counts.unchecked) + " (" +
                human_bytes(counts.unchecked_bytes) +
                ") were read only in part and not checked: --check_crc before reads them in full";
    }
    return text;
}

std::string checksums_text(const execute::RecordCounts& counts, CheckCrc when) {
    if (when == CheckCrc::off) {
        return "checksums not checked";
    }
    const Index all = counts.checked + counts.unchecked;
    const auto without = as_size(counts.without);
    const std::string none = without == 0 ? ""
                             : without == 1
                                 ? " (1 record states none)"
                                 : " (" + std::to_string(without) + " records state none)";
    if (all == 0) {
        return "the input has no checksums";
    }
    return std::to_string(counts.checked) + " of " + std::to_string(all) +
           " input checksums match" +
           (counts.unchecked == 0 ? "" : ", the others were read only in part") + none;
}

}  // namespace shardweld::app
