#include "program.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "app/cli/parse_options.hpp"
#include "app/merge/merge.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "app/report/run.hpp"
#include "app/report/summary.hpp"
#include "app/runtime/external.hpp"
#include "app/runtime/mounts.hpp"
#include "app/runtime/stop.hpp"
#include "app/runtime/version.hpp"
#include "app/settings/command_table.hpp"
#include "core/error_of.hpp"
#include "core/path.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "mpi/comm.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

/// Writes to `path` (--done) how a run of `command` ended, as JSON, each field on a line of its
/// own: the code that the process is about to return, its figures in one line ("": it has none),
/// this version, host and time, and Slurm's job, step and restart count where there are any. One
/// rank calls it, after all else. Error(io), Error(space).
void write_run_end(const fs::path& path, std::string_view command, int code,
                   const std::string& figures) {
    nlohmann::ordered_json json = {{"command", command},  {"code", code},
                                   {"figures", figures},  {"version", version()},
                                   {"host", host_name()}, {"time", utc_now()}};
    if (const std::string job = job_name(); !job.empty()) {
        json["job"] = job;
        json["step"] = variable("SLURM_STEP_ID").value_or("");
        json["restarts"] = job_restarts();
    }
    write_json(json_text(json), path, false);
}

/// Rank by the launcher's variables, for what is said before or without MPI; 0 when started alone.
int rank_by_launcher() {
    constexpr std::array kRankVariables{"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                        "PMI_RANK", "PALS_RANKID",          "SLURM_PROCID"};
    // The first is torchrun's, below whatever has started it; pods of a cluster have it, too.
    const std::size_t first = mpi::torch_processes() > 0 ? 0 : 1;
    for (const char* name : std::span(kRankVariables).subspan(first)) {
        const char* rank = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
        if (rank != nullptr) {
            return static_cast<int>(parse_index(rank).value_or(0));
        }
    }
    return 0;
}

bool is_first_by_launcher() {
    return rank_by_launcher() == 0;
}

/// Ranks that cannot reach one another wait for ever in their first calls. Nothing is read then
/// that could take long.
constexpr double kStartLimit_s = 300;

constexpr const char* kNoNetwork =
    "the ranks cannot reach one another, or one of them is dead: name a network that all nodes "
    "share, for example OMPI_MCA_btl_tcp_if_include=eth0 with Open MPI";

Error no_memory(const char* hint) {
    return {ErrorCode::memory, "memory ran out", hint};
}

/// torchrun, which verl's pages merge with, starts processes that are each a world of its own.
void refuse_torchrun(const std::vector<std::string>& arguments) {
    const int processes = mpi::torch_processes();
    if (processes == 0) {
        return;
    }
    throw Error(ErrorCode::launch,
                "torchrun started " + std::to_string(processes) +
                    " processes that MPI cannot join: each would do all the work",
                "type instead: mpirun -n " + std::to_string(processes) + " " +
                    process::shell_line(arguments));
}

std::string own_version() {
    return version() + " (" + git_version() + ")";
}

void say_notes(const Job& job, Log& log) {
    for (const std::string& note : job.notes) {
        log.debug(note);
    }
    for (const std::string& remark : job.remarks) {
        log.info(remark);
    }
}

/// Commands that all ranks run together.
bool is_parallel(Command command) {
    return command == Command::merge || examiner_of(command) != nullptr;
}

/// Commands that make files and remove them, or give them their names, at the end: they go on when
/// nobody reads their output any more.
bool has_files_under_way(Command command) {
    return command == Command::merge || command == Command::test;
}

/// The code of a command whose result goes to standard output.
int printed(int code, Log& log) {
    std::cout.flush();
    if (code == 0 && !std::cout) {
        const Error error(ErrorCode::io, "cannot write the result to standard output");
        log.error(error);
        return static_cast<int>(error.code());
    }
    return code;
}

/// The code, once --done has been told of it on the first rank; another one where that fails.
int told_at_end(const Job& job, const std::string& figures, int code, Log& log) {
    if (!job.run.done) {
        return code;
    }
    const int told = exit_code_of(log, [&] {
        write_run_end(*job.run.done, row_for(job.command).name, code, figures);
        return 0;
    });
    return code == 0 ? told : code;
}

/// Runs a command that prints its result: lines fit where that is a terminal, and with --json an
/// Error is printed in the result's place, on the first rank.
int with_output(const Job& job, bool is_first, const std::function<int(std::ostream&)>& command) {
    const std::size_t width = job.run.json ? 0 : width_of(STDOUT_FILENO);
    if (width == 0 && !job.run.json) {
        return command(std::cout);
    }
    std::ostringstream kept = text_stream();
    const auto show = [&] {
        if (width > 0) {
            std::cout << fitted(kept.view(), width);
        } else {
            std::cout << kept.view();
        }
    };
    try {
        const int code = command(kept);
        show();
        return code;
    } catch (const Error& error) {
        show();
        if (job.run.json && is_first && kept.view().empty()) {
            std::cout << failure_json(error);
        }
        throw;
    }
}

/// `figures`: RunReport in one line, where the command has any.
int run_parallel(mpi::Comm& comm, const Job& job, Log& log, std::string& figures) {
    const Examiner examine = examiner_of(job.command);
    const auto command = [&](std::ostream& out) {
        if (examine != nullptr) {
            return examine(comm, job, out, log);
        }
        return run_reported(comm, job, log, merge_model,
                            [&](const Run& run, const OutputReport& output) {
                                if (!figures.empty()) {
                                    return;
                                }
                                figures = speed_text(*run.report, output, run.watch->phases());
                                if (job.run.json && comm.rank() == 0) {
                                    out << merged_json(*run.report, run.watch->phases());
                                }
                            });
    };
    const int code = with_output(job, comm.rank() == 0, command);
    return examine != nullptr || job.run.json ? printed(code, log) : code;
}

/// The rank's own log, where --log_dir asks for one, begins with who writes it.
void keep_log(mpi::Comm& comm, const Job& job, Log& log) {
    if (!job.run.log_dir) {
        return;
    }
    mpi::collectively(comm,
                      [&] { log.keep(std::make_shared<RankLog>(*job.run.log_dir, comm.rank())); });
    const Circumstances how = circumstances_of(job.arguments);
    log.write_own("shardweld " + version() + " (" + git_version() + "), rank " +
                  std::to_string(comm.rank()) + " of " + std::to_string(comm.size()) + " on " +
                  comm.host() + ", process " + std::to_string(::getpid()) + ", in " +
                  how.directory + ": " + how.command);
    if (!how.launcher.empty()) {
        log.write_own("launched by: " + how.launcher);
    }
    for (const auto& [name, value] : how.variables) {
        log.write_own("variable " + name + "=" + printable(value, 1000));
    }
}

/// An Error has been agreed by all ranks; anything else failed on this one alone while the others
/// wait for it.
int run_or_abort(mpi::Comm& comm, const Job& job, Log& log, std::string& figures,
                 const std::function<void()>& on_started) {
    try {
        require_same_program(comm, own_version());
        require_same_options(comm, job.shared);
        keep_log(comm, job, log);
        on_started();
        return run_parallel(comm, job, log, figures);
    } catch (const Error&) {
        throw;
    } catch (const std::exception& error) {
        if (comm.size() > 1) {
            const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
            Error own = is_memory
                            ? no_memory("give a smaller --memory_limit or use fewer ranks per node")
                            : Error(ErrorCode::internal, error.what());
            log.on_every_rank().error(
                own.add_context("rank " + std::to_string(comm.rank()) + " (" + comm.host() + ")"));
            comm.abort(static_cast<int>(own.code()));
        }
        throw;
    }
}

/// A launcher that ends all ranks as soon as one has failed (srun -K) would overtake those that are
/// about to fail with the same code, and return its own.
void ignore_sigterm() {
    (void)std::signal(SIGTERM, SIG_IGN);
}

/// The ranks there are, watched until they have met: those that cannot reach one another would wait
/// for ever.
class Ranks {
  public:
    explicit Ranks(const Job& job) {
        const int rank = rank_by_launcher();
        const auto tell = [directory = job.run.log_dir, rank](const std::string& text) {
            if (directory) {
                (void)error_of([&] { RankLog(*directory, rank).write("error: " + text); });
            }
        };
        watchdog_.emplace(pulse_, rank, host_name(), std::min(job.run.stall_timeout, kStartLimit_s),
                          tell);
        watchdog_->advise(kNoNetwork);
        comm_ = mpi::world_comm(pulse_);
        watchdog_->follow(comm_->pulse());
    }

    [[nodiscard]] mpi::Comm& comm() const { return *comm_; }
    /// From now on a command watches itself.
    void have_met() { watchdog_.reset(); }

  private:
    mpi::Pulse pulse_;
    std::unique_ptr<mpi::Comm> comm_;
    std::optional<Watchdog> watchdog_;  // ends before what it follows
};

/// Runs with the ranks there are. Communication ends with this function, after all messages: a
/// launcher ends the others as soon as one process exits with an error.
int run_together(const Job& job) {
    Log early(std::cerr, job.run.log_level, is_first_by_launcher());
    // Merges stop in order, from their first moment on.
    std::optional<StopSignals> signals;
    if (job.command == Command::merge) {
        signals.emplace();
    }
    if (has_files_under_way(job.command)) {
        (void)std::signal(SIGPIPE, SIG_IGN);
    }
    return exit_code_of(early, [&] {
        ExitLimit limit;
        Ranks ranks(job);
        mpi::Comm& comm = ranks.comm();
        Log log = log_for(job, comm.rank() == 0);
        if (log.terminal() != nullptr) {
            StopSignals::tell_on(STDERR_FILENO);  // which a launcher passes on
        }
        say_notes(job, log);
        std::string figures;
        int code = exit_code_of(
            log, [&] { return run_or_abort(comm, job, log, figures, [&] { ranks.have_met(); }); });
        log.write_own("exits with code " + std::to_string(code));
        if (comm.rank() == 0) {
            code = told_at_end(job, figures, code, log);
        }
        if (code != 0) {
            ignore_sigterm();
        }
        comm.barrier();
        limit.begin(code);
        return code;
    });
}

/// Commands of one process; under a launcher all but the first have nothing to do.
int run_alone(const Job& job, bool is_first) {
    if (!is_first && job.command != Command::unmount) {  // of each host its own
        return 0;
    }
    Log log(std::cerr, job.run.log_level, true);
    log.attach(find_terminal(), job.run.has_colours);
    const int code = exit_code_of(log, [&] {
        say_notes(job, log);
        switch (job.command) {
            case Command::recipes:
                return with_output(job, true, [&](auto& out) { return recipes(job, out); });
            case Command::clean:
                return with_output(job, true, [&](auto& out) { return clean(job, out); });
            case Command::unmount:
                return unmount(job, log);
            case Command::help:
                std::cout << help_text(job.topic, job.help);
                return 0;
            case Command::version:
                std::cout << "shardweld " << own_version() << "\n"
                          << (job.run.log_level == LogLevel::debug ? build_text() : "");
                return 0;
            default:
                break;
        }
        throw Error(ErrorCode::unsupported, "this command is not in this version yet");
    });
    return printed(code, log);
}

/// A wrong command line is mostly wrong on all ranks: they meet before they exit, so that a
/// launcher does not end the one that speaks, and ranks that were given a right one do not wait.
int refuse_together(const Error& refused, bool is_json) {
    Log early(std::cerr, LogLevel::error, is_first_by_launcher());
    return exit_code_of(early, [&]() -> int {
        ExitLimit limit;
        Ranks ranks({});
        mpi::Comm& comm = ranks.comm();
        Log log(std::cerr, LogLevel::error, comm.rank() == 0);
        log.attach(find_terminal());
        log.error(refused);
        if (is_json && comm.rank() == 0) {
            std::cout << failure_json(refused) << std::flush;
        }
        ignore_sigterm();
        (void)exit_code_of(log, [&] {
            require_same_program(comm, own_version());
            require_same_options(comm, refused.full_text());
            return 0;
        });
        comm.barrier();
        limit.begin(static_cast<int>(refused.code()));
        return static_cast<int>(refused.code());
    });
}

}  // namespace

int exit_code_of(Log& log, const std::function<int()>& command) {
    try {
        return command();
    } catch (const Error& error) {
        log.error(error);
        return static_cast<int>(error.code());
    } catch (const std::bad_alloc&) {
        log.error(no_memory("give a smaller --memory_limit or use more ranks"));
        return static_cast<int>(ErrorCode::memory);
    } catch (const std::exception& error) {
        log.error(Error(ErrorCode::internal, std::string("internal error: ") + error.what()));
        return static_cast<int>(ErrorCode::internal);
    }
}

Log log_for(const Job& job, bool is_speaker) {
    Log log(std::cerr, job.run.log_level, is_speaker);
    if (is_speaker) {
        log.attach(find_terminal(), job.run.has_colours);
    }
    if (job.run.progress == ProgressStyle::json) {
        log.speak_json();
    }
    return log;
}

int run_program(const std::vector<std::string>& arguments) {
    read_environment();
    const bool is_first = is_first_by_launcher();
    Log log(std::cerr, LogLevel::error, is_first);
    return exit_code_of(log, [&] {
        refuse_torchrun(arguments);
        // Another program is one process: other ranks of a launcher have nothing to do.
        if (const auto words = words_on_path(arguments)) {
            if (is_first) {
                become(*words);
            }
            return 0;
        }
        Job job;
        try {
            job = parse_options(with_command_name(arguments));
        } catch (const Error& error) {
            return refuse_together(error, contains(arguments, "--json"));
        }
        if (job.command == Command::external && is_first) {
            become_installed(job.installed);
        }
        // Each process of a launcher mounts: they may be on other hosts.
        if (job.command == Command::mount) {
            become_own(
                "mount", arguments,
                std::string("take a build with libfuse3 (-DSHARDWELD_MOUNT=ON); without it ") +
                    kInsteadOfMount);
        }
        return is_parallel(job.command) ? run_together(job) : run_alone(job, is_first);
    });
}

}  // namespace shardweld::app
