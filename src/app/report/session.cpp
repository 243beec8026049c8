#include "session.hpp"

#include <iostream>

#include "../runtime/resources.hpp"

namespace shardweld::app {

Unreported::Unreported(mpi::Comm& comm, const Options& options, Log& log, Log& shown)
    : progress_(shown, style_for(options.progress, shown, options.is_quiet), steady_clock()),
      session_{comm, options, log, report_, watch_, progress_, throttle_of(options, comm)} {}

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

void print(mpi::Comm& comm, const std::function<std::string()>& text) {
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            std::cout << text() << std::flush;
            if (!std::cout) {
                throw Error(ErrorCode::io, "cannot write the result to standard output");
            }
        }
    });
}

}  // namespace shardweld::app
