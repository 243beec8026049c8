#include "session.hpp"

#include "app/runtime/memory.hpp"

namespace shardweld::app {

AlsoRuns::AlsoRuns(Session& first) : first_(first) {
    for (std::size_t at = 0; at < first.options.also.size(); ++at) {
        AlsoRun& run = runs_.emplace_back();
        run.options = options_of_other(first.options, at);
        run.session.emplace(Session{first.comm, run.options, first.log, run.report, first.watch,
                                    first.progress, first.throttle});
        first.also.push_back(&*run.session);
    }
}

void AlsoRuns::complete() {
    for (AlsoRun& run : runs_) {
        Report own = std::move(run.report);
        run.report = first_.report;
        run.report.plan_hash = std::move(own.plan_hash);
        run.report.ledger = std::move(own.ledger);
        run.report.metadata_bytes = own.metadata_bytes;
        run.report.quotas = std::move(own.quotas);
        run.report.resumed = own.resumed;
        run.report.ranks = std::move(own.ranks);
        run.report.made_of = std::move(own.made_of);
        run.report.files = std::move(own.files);
        run.report.side_files = std::move(own.side_files);
        run.report.tensors = std::move(own.tensors);
        run.report.sanity = std::move(own.sanity);
        run.report.base.reset();
        run.report.roof.reset();
        run.report.root = std::move(own.root);
        run.report.warnings.insert(run.report.warnings.end(), own.warnings.begin(),
                                   own.warnings.end());
    }
}

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
