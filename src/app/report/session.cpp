#include "session.hpp"

namespace shardweld::app {

void warn(Session& session, const plan::Warning& warning) {
    session.report.warnings.push_back(warning);
    if (!session.options.strict) {
        session.log.warning(warning.text);
    }
}

void warn(Session& session, const std::vector<plan::Warning>& warnings) {
    for (const plan::Warning& warning : warnings) {
        warn(session, warning);
    }
}

std::vector<Error> strict_problems(const Session& session) {
    std::vector<Error> problems;
    if (session.options.strict) {
        for (const plan::Warning& warning : session.report.warnings) {
            problems.emplace_back(ErrorCode::strict, warning.text + " (" + warning.code +
                                                         ", an error under --strict)");
        }
    }
    return problems;
}

}  // namespace shardweld::app
