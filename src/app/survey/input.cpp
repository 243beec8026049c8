#include "input.hpp"

#include <utility>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"
#include "formats/containers/zip.hpp"
#include "io/input_file.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "listed_sums.hpp"

namespace shardweld::app {

namespace {

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
    const fs::path& directory, const std::vector<catalogue::File>& files,
    catalogue::Records records, std::optional<std::vector<execute::RecordSums::RecordUse>> uses) {
    auto name_of = [directory, files](const catalogue::Record& record, std::string_view tensor) {
        const fs::path path = directory / files[record.file].path;
        return path.string() + ": " + record_at(path, record.offset) + "(" +
               std::to_string(record.bytes) + " bytes at " + std::to_string(record.offset) +
               ", tensor " + printable(tensor) + ")";
    };
    return uses ? std::make_shared<execute::RecordSums>(std::move(records), *std::move(uses),
                                                        std::move(name_of))
                : std::make_shared<execute::RecordSums>(std::move(records), std::move(name_of));
}

FoundCheckpoint find_shown(Session& session, const formats::InputRequest& request,
                           const std::string& of) {
    session.progress.begin("looking at files" + of);
    FoundCheckpoint found = find_checkpoint(session.comm, request);
    session.progress.end();
    return found;
}

void check_sums_shown(Session& session, FoundCheckpoint& found) {
    const auto sums = check_listed_sums(session, found);
    session.report.input_sums.insert(session.report.input_sums.end(), sums.begin(), sums.end());
}

Survey read_shown(Session& session, FoundCheckpoint found, const std::string& of) {
    Survey read = survey(session.comm, std::move(found),
                         shown(session.progress, "reading metadata" + of, "files"));
    session.progress.end();
    return read;
}

Survey survey_shown(Session& session, FoundCheckpoint found, const std::string& of) {
    check_sums_shown(session, found);
    return read_shown(session, std::move(found), of);
}

Survey survey_shown(Session& session, const formats::InputRequest& request, const std::string& of) {
    return survey_shown(session, find_shown(session, request, of), of);
}

Input input_of(Survey& survey, const MemoryMeter& meter, bool is_checked,
               std::span<const Survey* const> behind) {
    catalogue::Records records = catalogue::records_of(survey.catalogue);
    for (const Survey* const more : behind) {
        catalogue::append(records, catalogue::records_of(more->catalogue));
    }
    return {survey.location.directory,
            survey.catalogue.files,
            std::move(survey.visibility),
            std::move(survey.stamps),
            std::move(survey.digests),
            survey.n_reads,
            survey.home,
            record_sums(survey.location.directory, survey.catalogue.files, std::move(records)),
            is_checked,
            meter};
}

execute::SourceFiles source_of(const Session& session, const Input& input) {
    execute::SourceFiles source{input.directory,
                                &input.files,
                                session.options.max_open,
                                session.throttle,
                                {},
                                input.stamps.empty() ? nullptr : &input.stamps,
                                input.is_checked ? input.sums : nullptr};
    if (session.log.is_kept()) {
        source.on_open = [&log = session.log](const fs::path& file) {
            log.note("opens " + printable(file.string()));
        };
    }
    return source;
}

execute::RecordCounts check_shown(Session& session, const Input& input,
                                  execute::Completion completion, const mpi::WhyStop& why_stop) {
    const execute::RecordCounts counts = execute::check_records(
        session.comm, *input.sums, source_of(session, input), input.visibility, completion,
        why_stop, shown(session.progress, "checking checksums"));
    session.progress.end();
    return counts;
}

std::optional<execute::RecordCounts> check_what_was_read(Session& session, const Input& input,
                                                         const mpi::WhyStop& why_stop) {
    return input.is_checked && input.sums
               ? std::optional(check_shown(session, input, execute::Completion::cheap, why_stop))
               : std::nullopt;
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

formats::InputRequest input_request(const Options& options) {
    formats::InputRequest request{
        options.local_dir, options.backend, options.iteration, options.role,
        options.mesh,      options.prefix,  options.weights,   options.check_crc != CheckCrc::off};
    request.wants_model = options.averaging.is_asked();  // where there is no checkpoint
    return request;
}

}  // namespace shardweld::app
