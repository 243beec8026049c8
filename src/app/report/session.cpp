#include "session.hpp"

#include "app/runtime/memory.hpp"

namespace shardweld::app {

namespace {

/// What all outputs have in common.
void share(const Report& first, Report& other) {
    static_cast<RunReport&>(other) = first;
    other.warnings.insert(other.warnings.begin(), first.warnings.begin(), first.warnings.end());
}

}  // namespace

Run::Run(mpi::Comm& comm, const Options& options, Log& log, Log& shown)
    : progress_(shown, style_for(options.progress, shown, options.is_quiet), steady_clock()) {
    const auto throttle = throttle_of(options, comm);
    for (std::size_t at = 0; at <= options.also.size(); ++at) {
        Told& one = told_.emplace_back(Told{options_of_output(options, at), {}});
        outputs_.push_back({comm, one.options, log, one.report, watch_, progress_, throttle});
    }
}

void Run::share_report() {
    for (Told& one : told_) {
        if (&one != &told_.front()) {
            share(told_.front().report, one.report);
        }
    }
}

void warn(const Session& session, const plan::Warning& warning) {
    session.report.warnings.push_back(warning);
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
        for (const plan::Warning& warning : session.report.warnings) {
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
