#include "run.hpp"

#include <cerrno>

#include <unistd.h>

#include "app/runtime/memory.hpp"
#include "app/runtime/stop.hpp"
#include "app/settings/command_table.hpp"
#include "core/error_of.hpp"
#include "core/process/system.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "publish/report_file.hpp"

#include "report_json.hpp"

namespace shardweld::app {

namespace {

std::string text_of(const Phase& phase) {
    return "phase " + phase.name +
           formatted(": %.3f s, %.3f s of processor time", phase.wall_s, phase.cpu_s);
}

/// A run that failed leaves the report of one that succeeded: it holds the only checksums.
fs::path place_of(const RunReport& report, const fs::path& wanted) {
    if (report.code == ErrorCode::ok) {
        return wanted;
    }
    std::optional<publish::ReportFacts> old;
    const bool is_unreadable = error_of([&] { old = publish::report_at(wanted); }).has_value();
    return is_unreadable || (old && old->is_success) ? publish::failed_beside(wanted) : wanted;
}

/// A report that is the only one of another model which is there stays.
void require_same_output(const fs::path& report, const std::optional<fs::path>& target) {
    const auto old = publish::report_at(report);
    const bool is_needed = old && old->is_success && !old->output.empty() &&
                           io::kind_at(old->output) == io::FileKind::directory;
    if (is_needed && (!target || io::resolved(*target) != old->output)) {
        throw Error(ErrorCode::target,
                    report.string() + " is the report of " + old->output.string() +
                        ", which cannot be verified without it",
                    "choose another place for --report");
    }
}

/// Writes the report of one output. The code of what went wrong, where that is the run's only
/// failure.
ErrorCode finish_report(const Run& run, const OutputReport& output) {
    const auto& wanted = output.asked.report;
    RunReport& report = *run.report;
    const mpi::Comm& comm = run.comm;
    Log& log = run.log;
    if (!wanted || comm.rank() != 0 || report.is_left_alone) {
        return ErrorCode::ok;
    }
    report.phases = run.watch->phases();
    const auto failure = error_of([&] {
        const fs::path place = place_of(report, *wanted);
        write_report(report, output, place, run.job.run.sync);
        if (report.code != ErrorCode::ok) {
            log.info("the report of this run is " + place.string() +
                     (place == *wanted ? ""
                                       : "; " + wanted->string() +
                                             " is that of an earlier run, which succeeded"));
        }
    });
    if (!failure) {
        return ErrorCode::ok;
    }
    Error unwritten(failure->code(), std::string("the report is not written: ") + failure->what(),
                    failure->hint());
    if (comm.size() > 1) {
        unwritten.add_context("rank 0 (" + comm.host() + ")");
    }
    if (report.code == ErrorCode::ok) {
        log.error(unwritten);
        return failure->code();
    }
    log.warning(unwritten.full_text());
    return ErrorCode::ok;
}

/// Why nothing can be written there, "" when it can.
std::string why_not_writable(const fs::path& directory) {
    switch (io::kind_at(directory)) {
        case io::FileKind::none:
            return "there is no directory " + directory.string();
        case io::FileKind::directory:
            break;
        default:
            return directory.string() + " is not a directory";
    }
    return ::eaccess(directory.c_str(), W_OK | X_OK) == 0
               ? ""
               : "no right to write in " + directory.string() + ": " + text_of_errno(errno);
}

void require_report_place(const fs::path& report, const std::optional<fs::path>& target) {
    const auto refuse = [&](const std::string& why) {
        throw Error(ErrorCode::io,
                    "the report " + report.string() + " could not be written: " + why,
                    "choose another place for --report");
    };
    if (const std::string why = publish::why_not_replaced(report); !why.empty()) {
        refuse(why);
    }
    require_same_output(report, target);
    const fs::path directory = io::resolved(report).parent_path();
    if (target) {
        const fs::path model = io::resolved(*target);
        const bool is_made =
            io::kind_at(directory) == io::FileKind::none && io::is_within(model, directory);
        if (is_made || io::is_within(directory, model)) {
            return;
        }
    }
    if (const std::string why = why_not_writable(directory); !why.empty()) {
        refuse(why);
    }
}

/// All runs of a job write into one log, and what lies beside the model does not change with them.
bool was_told_before(const Warning& warning) {
    return warning.code == "tokenizer_missing" && job_restarts() > 0;
}

}  // namespace

Run begin_run(mpi::Comm& comm, const Job& job, const std::vector<JobOutput>& outputs, Log& log,
              Log& shown) {
    const ProgressStyle style =
        style_for(job.run.progress, shown, job.run.log_level == LogLevel::error);
    Run run{comm,
            job,
            log,
            throttle_of(job, comm),
            std::make_shared<RunReport>(),
            std::make_shared<Stopwatch>(),
            std::make_shared<Progress>(shown, style, steady_clock())};
    for (const JobOutput& output : outputs) {
        run.report->outputs.emplace_back().asked = output;
    }
    return run;
}

Warnings& warnings_of(const Run& run, OutputReport& output) {
    return &output == &run.report->outputs.front() ? run.report->warnings : output.own_warnings;
}

void warn(const Run& run, OutputReport& output, const Warnings& warnings) {
    for (const Warning& warning : warnings) {
        warnings_of(run, output).push_back(warning);
        if (was_told_before(warning)) {
            run.log.write_own("warning: " + warning.text);
        } else if (!run.job.run.strict) {
            run.log.warning(warning.text);
        }
    }
}

void warn(const Run& run, const Warnings& warnings) {
    warn(run, run.report->outputs.front(), warnings);
}

void warn(const Run& run, const Warning& warning) {
    warn(run, std::vector{warning});
}

std::vector<Error> strict_problems(const Run& run, OutputReport& output) {
    std::vector<Error> problems;
    if (run.job.run.strict) {
        for (const Warning& warning : warnings_of(run, output)) {
            problems.emplace_back(ErrorCode::strict, warning.text + " (" + warning.code +
                                                         ", an error under --strict)");
        }
    }
    return problems;
}

void print(mpi::Comm& comm, std::ostream& out, const std::function<std::string()>& text) {
    mpi::on_first(comm, [&] {
        out << text() << std::flush;
        if (!out) {
            throw Error(ErrorCode::io, "cannot write the result to standard output");
        }
    });
}

int run_reported(mpi::Comm& comm, const Job& job, Log& log,
                 const std::function<ErrorCode(const Run&)>& body,
                 const std::function<void(const Run&, const OutputReport&)>& on_report) {
    const Run run = begin_run(comm, job, log);
    RunReport& report = *run.report;
    report.command = row_for(job.command).name;
    report.mpi = comm.library();
    report.n_ranks = comm.size();
    report.hosts = mpi::gather(comm, std::string(comm.host()));
    report.circumstances = circumstances_of(job.arguments);
    for (OutputReport& one : report.outputs) {
        one.target = job.command == Command::merge ? one.asked.directory.string() : "";
    }
    run.watch->on_lap([&log](const Phase& phase) { log.write_own(text_of(phase)); });
    // The others tell of a first report that is not written.
    const auto finish_all = [&] {
        ErrorCode unwritten = ErrorCode::ok;
        for (const OutputReport& one : report.outputs) {
            const ErrorCode code = finish_report(run, one);
            unwritten = unwritten == ErrorCode::ok ? code : unwritten;
            report.code =
                &one == &report.outputs.front() && code != ErrorCode::ok ? code : report.code;
        }
        report.code = report.code == ErrorCode::ok ? unwritten : report.code;
    };
    try {
        report.code = body(run);
    } catch (const Error& error) {
        run.progress->end();
        report.code = error.code();
        report.failure = error;
        finish_all();
        throw;
    }
    if (job.outputs.front().report) {
        report.rank_phases = mpi::gather(comm, run.watch->phases());
    }
    finish_all();
    for (const OutputReport& one : report.outputs) {
        if (on_report) {
            on_report(run, one);
        }
    }
    return static_cast<int>(comm.all_max(static_cast<Index>(report.code)));
}

void check_report(mpi::Comm& comm, const std::optional<fs::path>& report,
                  const std::optional<fs::path>& target) {
    mpi::on_first(comm, [&] {
        if (report) {
            require_report_place(*report, target);
        }
    });
}

}  // namespace shardweld::app
