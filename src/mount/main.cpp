// shardweld-mount: the command mount, which is linked with libfuse3 and therefore a program of its
// own.
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <malloc.h>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/cli/parse_options.hpp"
#include "app/commands/program.hpp"
#include "app/merge/completed.hpp"
#include "app/merge/plan_outputs.hpp"
#include "app/merge/preflight.hpp"
#include "app/merge/publishing.hpp"
#include "app/merge/resumption.hpp"
#include "app/merge/unwritten.hpp"
#include "app/messages/log.hpp"
#include "app/settings/option_value.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "mpi/comm.hpp"
#include "plan/plan.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

#include "mount_point.hpp"
#include "proof.hpp"
#include "server.hpp"
#include "unwritten_files.hpp"

namespace shardweld::mount {

namespace {

constexpr Bytes kCache = Bytes{48} << 20U;
constexpr Bytes kLeastCache = Bytes{16} << 20U;
// What a reader's buffers take: they gather a strip.
constexpr Bytes kReaderMemory = Bytes{16} << 20U;
// That the mount was taken away, from the thread that serves it to the one that waits.
constexpr int kUnmounted = SIGUSR2;

app::Job job_of(app::Job job) {
    job.run.plan.replicas = plan::Replicas::trust;  // only a merge reads them all
    if (!job.run.memory_limit) {
        job.run.memory_limit = kReaderMemory;
    }
    job.run.cache_limit = job.run.cache_limit.value_or(kCache);
    if (*job.run.cache_limit < kLeastCache) {
        app::refuse("--cache_limit is less than 16MiB", "give 16MiB or more, or leave it out");
    }
    return job;
}

pid_t forked() {
    const pid_t child = ::fork();
    if (child < 0) {
        throw Error(ErrorCode::memory, "cannot fork: " + text_of_errno(errno));
    }
    return child;
}

int shell_code_of(int status) {
    constexpr int kSignalled = 128;
    return WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
}

/// What a merge says in README.md, as far as it is known before the tensors are read.
std::string card_of(app::Unwritten& model, const fs::path& point) {
    app::Output& output = model.output();
    model.run().report->command = "merge";
    output.report.made_of = {point.string(),
                             app::config_digest(output.config_text),
                             app::way_of(model.run().job, output.asked()).options,
                             {}};
    return app::card_of(model.run(), output);
}

/// Returns in a process in the background, with the descriptor by which it says that it is ready;
/// this one waits for that, or exits with the other's code.
int go_to_background() {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
        throw Error(ErrorCode::io, "cannot make a pipe: " + text_of_errno(errno));
    }
    const pid_t child = forked();
    (void)::close(pipe[child == 0 ? 0 : 1]);
    if (child == 0) {
        return pipe[1];
    }
    char one = 0;
    while (::read(pipe[0], &one, 1) < 0 && errno == EINTR) {
    }
    int status = 0;
    ::_exit(one != 0 || ::waitpid(child, &status, 0) != child ? 0 : shell_code_of(status));
}

void leave_terminal(int waited_for_by) {
    (void)::setsid();
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
        (void)::dup2(nothing, fd);
    }
    (void)::close(nothing);
    (void)!::write(waited_for_by, "1", 1);
    (void)::close(waited_for_by);
}

/// Signals that all of the mount's threads leave to the one that waits.
sigset_t blocked_signals(sigset_t& before) {
    sigset_t blocked;
    (void)::sigemptyset(&blocked);
    for (const int one : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, kUnmounted}) {
        (void)::sigaddset(&blocked, one);
    }
    (void)::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    return blocked;
}

int next_of(const sigset_t& signals) {
    int seen = 0;
    while (::sigwait(&signals, &seen) != 0) {
    }
    return seen;
}

/// Runs a program while the model can be read, and returns its code. A terminal's Ctrl-C reaches it
/// by itself.
int run(const std::vector<std::string>& words, const sigset_t& signals, const sigset_t& before) {
    const std::vector<char*> pointers = process::exec_words(words);
    const pid_t child = forked();
    if (child == 0) {
        (void)::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        (void)::execvp(pointers.front(), pointers.data());
        constexpr int kNotFound = 127;  // as a shell has it
        (void)std::fprintf(stderr, "error: cannot run %s: %s\n", pointers.front(),
                           text_of_errno(errno).c_str());
        ::_exit(kNotFound);
    }
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) != child) {
        const int seen = next_of(signals);
        if (seen == SIGTERM || seen == SIGHUP) {
            (void)::kill(child, seen);
        }
    }
    return shell_code_of(status);
}

/// The file of --ready, which appears whole.
void write_ready(const fs::path& path) {
    const fs::path whole = path.string() + ".new";
    io::write_text(whole, std::to_string(::getpid()) + "\n", false);
    fs::rename(whole, path);
}

std::string ready_text(const UnwrittenFiles& files, const app::Output& output) {
    return ", " + counted(files.files().size(), "file") + ", " + human_bytes(files.bytes()) +
           (output.model_class().empty() ? "" : " of " + output.model_class());
}

int mount(const app::Job& asked) {
    const app::Job job = job_of(asked);
    app::Log log = app::log_for(job, true);
    if (job.run.log_dir) {
        log.keep(std::make_shared<app::RankLog>(*job.run.log_dir, 0));
    }
    const fs::path point = checked_point(job);
    const int waiting = job.run.is_daemon ? go_to_background() : -1;
    app::Unwritten model(mpi::serial_comm(), job, log);
    app::report_plans(model.run(), model.merge());
    if (const auto problems =
            app::strict_problems(model.run(), model.run().report->outputs.front());
        !problems.empty()) {
        throw Error(app::all_of(problems, "warnings"));
    }
    UnwrittenFiles files(model, card_of(model, point));
    Proof proof(model, files, point);
    std::mutex speaking;
    const auto on_failure = [&](const Error& error) {
        proof.note(error);
        const std::lock_guard lock(speaking);
        log.error(error);
    };
    sigset_t before;
    const sigset_t signals = blocked_signals(before);
    const Server server(files, proof, job, point, on_failure,
                        [] { (void)::kill(::getpid(), kUnmounted); });
    log.info(app::Headline{"mounted", point.string(), ready_text(files, model.output())});
    if (job.run.ready) {
        write_ready(*job.run.ready);
    }
    if (waiting >= 0) {
        leave_terminal(waiting);
    }
    int code = 0;
    if (!job.run.program.empty()) {
        code = run(job.run.program, signals, before);
    } else {
        while (next_of(signals) == SIGCHLD) {
        }
    }
    if (job.run.ready) {
        fs::remove(*job.run.ready);
    }
    return code;
}

}  // namespace

}  // namespace shardweld::mount

int main(int argc, char** argv) {
    (void)::mallopt(M_ARENA_MAX, 4);
    shardweld::read_environment();
    shardweld::app::Log early(std::cerr, shardweld::LogLevel::error, true);
    early.attach(shardweld::app::find_terminal());
    return shardweld::app::exit_code_of(early, [&] {
        const auto job = shardweld::app::parse_options({argv, argv + argc});
        if (job.command != shardweld::app::Command::mount) {
            shardweld::app::refuse("this program is a part of shardweld",
                                   "run shardweld mount DIR MOUNTPOINT");
        }
        return shardweld::mount::mount(job);
    });
}
