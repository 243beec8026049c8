#include "input.hpp"

#include <utility>

#include "shardweld/core/text.hpp"

#include "checksums.hpp"

namespace shardweld::app {

FoundCheckpoint find_shown(Session& session, const formats::InputRequest& request,
                           const std::string& of) {
    session.progress.begin("looking at files" + of);
    FoundCheckpoint found = find_checkpoint(session.comm, request);
    session.progress.end();
    return found;
}

Survey survey_shown(Session& session, FoundCheckpoint found, const std::string& of) {
    Survey read = survey(session.comm, std::move(found), [&](Index done, Index own, Index total) {
        if (done == 0) {
            session.progress.begin("reading metadata" + of, {total, own, "files"});
        }
        session.progress.update(done);
    });
    session.progress.end();
    return read;
}

Survey survey_shown(Session& session, const formats::InputRequest& request, const std::string& of) {
    return survey_shown(session, find_shown(session, request, of), of);
}

Input input_of(Survey& survey, const MemoryMeter& meter, bool is_checked) {
    return {survey.location.directory,
            survey.catalogue.files,
            std::move(survey.visibility),
            std::move(survey.stamps),
            std::move(survey.digests),
            survey.home,
            record_sums(survey.location.directory, survey.catalogue),
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

std::optional<execute::RecordCounts> check_what_was_read(Session& session, const Input& input,
                                                         const mpi::WhyStop& why_stop) {
    const execute::SourceFiles source = source_of(session, input);
    return source.sums ? std::optional(execute::check_records(session.comm, *source.sums, source,
                                                              input.visibility,
                                                              execute::Completion::cheap, why_stop))
                       : std::nullopt;
}

}  // namespace shardweld::app
