#include "session.hpp"

#include "app/runtime/memory.hpp"

namespace shardweld::app {

Run::Run(mpi::Comm& comm, const Options& options, std::vector<OutputRequest> outputs, Log& log,
         Log& shown)
    : requests_(std::move(outputs)),
      progress_(shown, style_for(options.progress, shown, options.is_quiet), steady_clock()) {
    const auto throttle = throttle_of(options, comm);
    for (const OutputRequest& output : requests_) {
        OutputReport& report = reports_.emplace_back();
        outputs_.push_back({comm, options, log, report_, watch_, progress_, throttle, output,
                            report, outputs_.empty() ? report_.warnings : report.own_warnings});
    }
}

void warn(const Session& session, const plan::Warning& warning) {
    session.warnings.push_back(warning);
    if (!session.options.strict) {
        session.log.warning(warning.text);
    }
}

void warn(const Session& session, const std::vector<plan::Warning>& warnings) {
    for (const plan::Warning& warning : warnings) {
        warn(session, warning);
    }
}

std::vector<Error> strict_problems(const Session& session) {
    std::vector<Error> problems;
    if (session.options.strict) {
        for (const plan::Warning& warning : session.warnings) {
            problems.emplace_back(ErrorCode::strict, warning.text + " (" + warning.code +
                                                         ", an error under --strict)");
        }
    }
    return problems;
}

void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text) {
    mpi::collectively(comm, [&] {
        if (comm.rank() == 0) {
            out << text() << std::flush;
            if (!out) {
                throw Error(ErrorCode::io, "cannot write the result to standard output");
            }
        }
    });
}

}  // namespace shardweld::app
