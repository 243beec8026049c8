#include "reported.hpp"

#include <array>
#include <cstdio>

namespace shardweld::app {

namespace {

std::string text_of(const Phase& phase) {
    std::array<char, 80> times{};
    (void)std::snprintf(times.data(), times.size(), ": %.3f s, %.3f s of processor time",
                        phase.wall_s, phase.cpu_s);
    return "phase " + phase.name + times.data();
}

void finish_report(Report& report, const Options& options, const std::vector<Phase>& phases,
                   mpi::Comm& comm, Log& log) {
    if (!options.report || comm.rank() != 0) {
        return;
    }
    report.phases = phases;
    const auto failure =
        mpi::error_of([&] { write_report(report, *options.report, options.sync); });
    if (!failure) {
        return;
    }
    const std::string who = comm.size() == 1 ? "" : "rank 0 (" + std::string(comm.host()) + "): ";
    const std::string text = who + "the report is not written: " + failure->what();
    if (report.code == ErrorCode::ok) {
        log.error(text);
        report.code = failure->code();
    } else {
        log.warning(text);
    }
}

}  // namespace

int run_reported(mpi::Comm& comm, const Options& options, Log& log, const std::string& command,
                 const ReportedRun& body) {
    Report report;
    report.command = command;
    report.mpi = comm.library();
    report.n_ranks = comm.size();
    for (const auto& host : comm.all_gather(std::as_bytes(std::span(comm.host())))) {
        report.hosts.emplace_back(reinterpret_cast<const char*>(host.data()), host.size());
    }
    Stopwatch watch;
    watch.tell([&log](const Phase& phase) { log.note(text_of(phase)); });
    Session session{comm, options, log, report, watch};
    try {
        report.code = body(session);
    } catch (const Error& error) {
        report.code = error.code();
        report.message = error.full_text();
        finish_report(report, options, watch.phases(), comm, log);
        throw;
    }
    finish_report(report, options, watch.phases(), comm, log);
    return static_cast<int>(comm.all_max(static_cast<Index>(report.code)));
}

}  // namespace shardweld::app
