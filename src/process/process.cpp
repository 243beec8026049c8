#include "process.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <spawn.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process/system.hpp"
#include "core/text.hpp"

extern char** environ;  // NOLINT: not every libc declares it, and it is as it is

namespace shardweld::process {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kGrace = std::chrono::milliseconds(5000);
constexpr std::size_t kMostOfLine = 65536;
constexpr int kMostReads = 64;  // before anything else is looked at
constexpr int kPollMs = 100;
constexpr std::array<int, 3> kStopSignals = {SIGINT, SIGTERM, SIGHUP};

volatile std::sig_atomic_t stop_requested = 0;  // NOLINT: a handler can reach nothing else

void request_stop(int /*signal*/) {
    stop_requested = 1;
}

/// While it lives, signals that ask to stop are noted instead of ending this process. Ignored ones
/// (nohup) stay ignored.
class NotedSignals {
  public:
    NotedSignals() {
        stop_requested = 0;
        for (const std::size_t i : indices(kStopSignals)) {
            struct sigaction noted {};
            noted.sa_handler = request_stop;
            ::sigaction(kStopSignals[i], nullptr, &before_[i]);
            if (before_[i].sa_handler != SIG_IGN) {
                ::sigaction(kStopSignals[i], &noted, nullptr);
            }
        }
        // If it is ignored, a child's exit status is lost.
        struct sigaction plain {};
        plain.sa_handler = SIG_DFL;
        ::sigaction(SIGCHLD, &plain, &child_before_);
    }
    ~NotedSignals() {
        for (const std::size_t i : indices(kStopSignals)) {
            ::sigaction(kStopSignals[i], &before_[i], nullptr);
        }
        ::sigaction(SIGCHLD, &child_before_, nullptr);
    }
    NotedSignals(const NotedSignals&) = delete;
    NotedSignals& operator=(const NotedSignals&) = delete;

    [[nodiscard]] static bool seen() { return stop_requested != 0; }

  private:
    std::array<struct sigaction, kStopSignals.size()> before_{};
    struct sigaction child_before_ {};
};

/// Both ends of a pipe, closed at the end.
class Pipe {
  public:
    Pipe() { is_open_ = ::pipe2(ends_.data(), O_CLOEXEC) == 0; }
    ~Pipe() {
        close_end(0);
        close_end(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    [[nodiscard]] bool is_open() const { return is_open_; }
    [[nodiscard]] int end(std::size_t at) const { return ends_.at(at); }
    void close_end(std::size_t at) {
        if (ends_.at(at) >= 0) {
            ::close(ends_.at(at));
            ends_.at(at) = -1;
        }
    }

  private:
    std::array<int, 2> ends_{-1, -1};
    bool is_open_ = false;
};

std::vector<std::string> whole_environment(const std::vector<std::string>& more,
                                           const std::vector<std::string>& withheld) {
    std::vector<std::string> all;
    for (char** at = environ; *at != nullptr; ++at) {
        const std::string_view own = *at;
        if (std::ranges::none_of(withheld, [&](auto& name) { return own.starts_with(name); })) {
            all.emplace_back(own);
        }
    }
    const std::size_t n_own = all.size();
    for (const std::string& variable : more) {
        const std::string name = variable.substr(0, variable.find('=') + 1);
        if (std::none_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n_own),
                         [&](const std::string& own) { return own.starts_with(name); })) {
            all.push_back(variable);
        }
    }
    return all;
}

/// Starts the program with both outputs in `output`; its id, or nullopt with errno.
/// posix_spawn, not fork: a copied address space and a network card's pinned pages do not go
/// together.
std::optional<pid_t> start(const Process& process, int output) {
    posix_spawn_file_actions_t actions{};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#endif
    posix_spawnattr_t attributes{};
    posix_spawnattr_init(&attributes);
    sigset_t set{};
    sigemptyset(&set);
    posix_spawnattr_setsigmask(&attributes, &set);
    sigaddset(&set, SIGXFSZ);
    sigaddset(&set, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    std::vector<std::string> words{process.program.string()};
    append_all(words, process.arguments);
    const std::vector<std::string> variables =
        whole_environment(process.environment, process.withheld);
    pid_t id = 0;
    const int failed = ::posix_spawn(&id, process.program.c_str(), &actions, &attributes,
                                     exec_words(words).data(), exec_words(variables).data());
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0) {
        errno = failed;
        return std::nullopt;
    }
    return id;
}

/// Follows a running process to its end.
class Follower {
  public:
    Follower(const Process& process, pid_t id, int input)
        : process_(process), id_(id), input_(input) {}

    Ending run() {
        while (!has_ended()) {
            wait_for_output();
            take_output();
            end_if_asked();
        }
        take_output();
        finish_line();
        return ending_;
    }

  private:
    [[nodiscard]] double seconds() const {
        return std::chrono::duration<double>(Clock::now() - begin_).count();
    }

    bool has_ended() {
        int status = 0;
        const pid_t ended = ::waitpid(id_, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR)) {
            return false;
        }
        if (ended == id_ && WIFEXITED(status)) {
            ending_.code = WEXITSTATUS(status);
        } else if (ended == id_ && WIFSIGNALED(status)) {
            ending_.signal = WTERMSIG(status);
        }
        return true;
    }

    void wait_for_output() const {
        pollfd waiting{input_, POLLIN, 0};
        ::poll(&waiting, is_open_ ? 1 : 0, kPollMs);
    }

    /// What there is now, as far as it does not keep us: a grandchild may keep the pipe open, or
    /// fill it without end.
    void take_output() {
        std::array<char, 4096> bytes{};
        for (int turn = 0; is_open_ && turn < kMostReads; ++turn) {
            const ssize_t n = ::read(input_, bytes.data(), bytes.size());
            if (n > 0) {
                add({bytes.data(), as_size(n)});
            } else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
                is_open_ = false;
            } else {
                return;
            }
        }
    }

    /// Hands out each line once, at its end (LF or CR), and none that are empty.
    void add(std::string_view bytes) {
        for (const char byte : bytes) {
            if (byte == '\n' || byte == '\r') {
                finish_line();
            } else if (line_.size() < kMostOfLine) {
                line_ += byte;
            }
        }
    }

    void finish_line() {
        if (!line_.empty()) {
            process_.on_line(line_);
            line_.clear();
        }
    }

    void end_if_asked() {
        ending_.was_stopped = ending_.was_stopped || NotedSignals::seen();
        ending_.took_too_long =
            ending_.took_too_long || (process_.limit_s && seconds() > *process_.limit_s);
        if (!ending_.was_stopped && !ending_.took_too_long) {
            return;
        }
        if (!asked_) {
            asked_ = Clock::now();
            ::kill(id_, SIGTERM);
        } else if (Clock::now() - *asked_ > kGrace) {
            ::kill(id_, SIGKILL);
        }
    }

    const Process& process_;
    pid_t id_;
    int input_;
    bool is_open_ = true;
    std::string line_;  ///< that has no end yet
    Ending ending_;
    Clock::time_point begin_ = Clock::now();
    std::optional<Clock::time_point> asked_;
};

}  // namespace

std::optional<Ending> run(const Process& process) {
    Pipe pipe;
    if (!pipe.is_open() || ::fcntl(pipe.end(0), F_SETFL, O_NONBLOCK) != 0) {
        return std::nullopt;
    }
    const NotedSignals signals;
    const std::optional<pid_t> id = start(process, pipe.end(1));
    if (!id) {
        return std::nullopt;
    }
    pipe.close_end(1);
    return Follower(process, *id, pipe.end(0)).run();
}

bool is_program(const fs::path& path) {
    std::error_code failed;
    return fs::is_regular_file(path, failed) && ::access(path.c_str(), X_OK) == 0;
}

std::vector<char*> exec_words(const std::vector<std::string>& words) {
    std::vector<char*> list;
    list.reserve(words.size() + 1);
    for (const std::string& word : words) {
        list.push_back(const_cast<char*>(word.c_str()));  // NOLINT: exec's old interface
    }
    list.push_back(nullptr);
    return list;
}

std::optional<fs::path> find_program(const std::string& name) {
    return find_program(name, variable("PATH").value_or(""));
}

std::optional<fs::path> find_program(const std::string& name, const std::string& path) {
    for (const std::string_view directory : split(path, ':')) {
        const fs::path program = fs::path(directory.empty() ? "." : directory) / name;
        if (is_program(program)) {
            return fs::absolute(program);
        }
    }
    return std::nullopt;
}

std::string shell_word(const std::string& text) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./+:=@%,";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
        return text;
    }
    std::string word = "'" + add_up(text, [](const char c) {
                           return c == '\'' ? std::string("'\\''") : std::string(1, c);
                       });
    return word + "'";
}

std::string shell_line(const std::vector<std::string>& words) {
    return joined(words, " ", shell_word);
}

}  // namespace shardweld::process
