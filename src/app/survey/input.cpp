#include "input.hpp"

#include <utility>

#include "shardweld/core/text.hpp"

#include "checksums.hpp"

namespace shardweld::app {

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
