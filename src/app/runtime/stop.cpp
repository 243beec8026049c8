#include "stop.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string_view>
#include <utility>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "app/settings/option_value.hpp"
#include "core/process/stop_point.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "mpi/free_run.hpp"
#include "mpi/share.hpp"
#include "process/process.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr double kQueueSeconds = 20;
constexpr double kUsualLead = 60;

// What a signal handler may touch.
std::atomic<int> first_signal = 0;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
// Where somebody reads; -1: nowhere.
std::atomic<int> told_of_stop = -1;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
static_assert(std::atomic<int>::is_always_lock_free);

void note(int signal) {
    int none = 0;
    // Whoever presses Ctrl-C at a terminal is told that it was heard. mpirun makes SIGTERM of it.
    if (first_signal.compare_exchange_strong(none, signal) && told_of_stop >= 0 &&
        (signal == SIGINT || signal == SIGTERM)) {
        constexpr std::string_view kHeard =
            "\nstopping: what is written is kept for the next merge; Ctrl-C again ends at once\n";
        (void)!::write(told_of_stop, kHeard.data(), kHeard.size());
    }
}

std::string name_of_signal(int signal) {
    switch (signal) {
        case SIGTERM:
            return "SIGTERM";
        case SIGINT:
            return "SIGINT";
        case SIGUSR1:
            return "SIGUSR1";
        case SIGUSR2:
            return "SIGUSR2";
        default:
            return "";
    }
}

/// When the job of this process ends, in seconds since 1970, by the environment of Slurm
/// (SLURM_JOB_END_TIME), else by asking squeue; nullopt outside of Slurm or where it does not tell.
std::optional<double> job_end() {
    if (const auto seconds = parse_index(variable("SLURM_JOB_END_TIME").value_or(""))) {
        return static_cast<double>(*seconds);
    }
    const std::string job = job_name();
    const auto squeue = process::find_program("squeue");
    if (job.empty() || !squeue) {
        return std::nullopt;
    }
    std::optional<double> end;
    process::Process ask{*squeue, {"-h", "-j", job, "-o", "%e"}, {}, kQueueSeconds, {}};
    ask.on_line = [&](std::string_view line) {
        if (const auto time = parse_local_time(std::string(trim(line)))) {
            end = time;
        }
    };
    (void)process::run(ask);
    return end;
}

constexpr std::size_t kStack = std::size_t{256} << 10U;
constexpr double kMostNap = 2;
// What oversleeps by so much was not running.
constexpr double kSuspended = 0.5;
// Ranks that wait for the same one speak one after the other: the launcher ends the rest after the
// first.
constexpr double kTurn = 2;
constexpr int kMostTurns = 20;
// A rank's turn to ask, and its wait for others that do: of thousands only few ask all.
constexpr double kShortTurn = 0.02;
constexpr double kPatience = 5;
constexpr double kMostPatience = 30;

double turn_of(int rank) {
    return kTurn * std::min(rank, kMostTurns) + kShortTurn * std::max(rank - kMostTurns, 0);
}

volatile std::sig_atomic_t exit_code = 0;  // NOLINT: a handler can reach nothing else

void end_now(int) {
    ::_exit(exit_code);
}

}  // namespace

StopSignals::StopSignals() {
    first_signal = 0;
    told_of_stop = ::isatty(STDERR_FILENO) != 0 ? STDERR_FILENO : -1;
    set_why_stopped([] {
        const std::string signal = seen();
        return signal.empty() ? signal : "interrupted by " + signal + " while files were read";
    });
    for (const std::size_t i : indices(kSignals)) {
        struct sigaction noted {};
        noted.sa_handler = note;
        // Whoever insists is obeyed; a batch system may send its own signals again and again.
        const bool is_hard = kSignals[i] == SIGTERM || kSignals[i] == SIGINT;
        noted.sa_flags = SA_RESTART | (is_hard ? static_cast<int>(SA_RESETHAND) : 0);
        ::sigaction(kSignals[i], &noted, &before_[i]);
    }
}

StopSignals::~StopSignals() {
    set_why_stopped(nullptr);
    for (const std::size_t i : indices(kSignals)) {
        struct sigaction now {};
        ::sigaction(kSignals[i], nullptr, &now);
        // What someone else has decided about a signal meanwhile holds.
        if (now.sa_handler == note) {
            ::sigaction(kSignals[i], &before_[i], nullptr);
        }
    }
}

void StopSignals::tell_on(int file) {
    told_of_stop = file;
}

std::string StopSignals::seen() {
    return name_of_signal(first_signal);
}

std::optional<double> parse_local_time(const std::string& text) {
    const auto seconds = local_time_in(text, "%Y-%m-%dT%H:%M:%S");
    return seconds && *seconds >= 0 ? seconds : std::nullopt;
}

std::string job_name() {
    return variable("SLURM_JOB_ID").value_or("");
}

Index job_restarts() {
    return parse_index(variable("SLURM_RESTART_COUNT").value_or("")).value_or(0);
}

double stop_time(double end, double now, std::optional<double> before_s) {
    return end - before_s.value_or(std::clamp((end - now) / 10, 0.0, kUsualLead));
}

Stopping::Stopping(mpi::Comm& comm, std::optional<double> before_s, std::optional<double> at,
                   std::stop_token stop, Log& log)
    : stop_(std::move(stop)) {
    const auto now = static_cast<double>(std::time(nullptr));
    time_ = mpi::share(comm, 0, [&] {
        const auto end = job_end();
        if (!end && before_s) {
            log.warning("--stop_before has no effect: the end of this job is unknown");
        }
        return end ? stop_time(*end, now, before_s) : time_;
    });
    const double given = mpi::share(comm, 0, [&] { return at.value_or(time_); });
    is_given_ = given < time_;
    time_ = std::min(time_, given);
    if (std::isfinite(time_)) {
        log.debug("will stop " + std::to_string(static_cast<Index>(time_ - now)) + " s from now" +
                  (is_given_ ? "" : ", before the job ends"));
    }
}

std::string Stopping::why() const {
    if (const std::string signal = StopSignals::seen(); !signal.empty()) {
        const bool is_end = signal == "SIGINT" || signal == "SIGTERM";
        return (is_end ? "interrupted by " : "stopped by ") + signal;
    }
    if (stop_.stop_requested()) {
        return "stopped by the program that called the merge";
    }
    if (static_cast<double>(std::time(nullptr)) < time_) {
        return "";
    }
    return is_given_ ? "stopped at the time that was given (--stop_at)"
                     : "stopped before the job ends (--stop_before)";
}

std::string Stopping::why_before_writing() const {
    const std::string reason = why();
    return reason.empty() ? "" : reason + ": nothing was written yet";
}

void Stopping::check(mpi::Comm& comm) const {
    mpi::collectively(comm, [&] { mpi::stop_if_asked([&] { return why_before_writing(); }); });
}

Watchdog::Watchdog(mpi::Pulse& pulse, int rank, const std::string& host, double limit_s,
                   std::function<void(const std::string&)> tell, std::shared_ptr<RollCall> others)
    : pulse_(&pulse),
      rank_(rank),
      limit_s_(limit_s),
      tell_(std::move(tell)),
      others_(std::move(others)),
      who_("rank " + std::to_string(rank) + " (" + host + ")") {
    if (limit_s_ <= 0) {
        return;
    }
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStack);
    const int error = pthread_create(&thread_, &attributes, watch, this);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        throw Error(ErrorCode::memory, who_ + ": cannot start a thread to watch the others",
                    "give the job more memory or take --stall_timeout 0");
    }
}

Watchdog::~Watchdog() {
    if (limit_s_ <= 0) {
        return;
    }
    over_ = true;
    (void)::eventfd_write(wake_, 1);
    pthread_join(thread_, nullptr);
    ::close(wake_);
}

void* Watchdog::watch(void* self) {
    static_cast<Watchdog*>(self)->watch();
    return nullptr;
}

void Watchdog::watch() {
    const double limit = limit_s_ + turn_of(rank_);
    double asked_until = 0;  // others ask, and speak then
    while (!over_) {
        const double silence = pulse_.load()->silence();
        // A launcher that ends the job because of another rank kills those that outlast its
        // patience, and would return their code.
        const bool is_ended = StopSignals::seen() == "SIGTERM" && silence > limit_s_ / 2;
        const double left = std::max(limit - silence, asked_until - wall_seconds());
        const double begin = wall_seconds();
        if (is_ended || left <= 0) {
            if (!is_ended && others_) {
                others_->ask(state(), wake_);
            }
            if (!over_ && pulse_.load()->silence() >= silence &&
                wall_seconds() - begin < kAskSeconds + kSuspended) {
                bark(pulse_.load()->silence());
            }
            continue;  // it goes on, or stood still itself
        }
        const double most = std::min({left, limit_s_ / 10, kMostNap});
        if (nap(most) && silence < limit + kMostPatience) {
            asked_until = wall_seconds() + kPatience;
        }
        if (wall_seconds() - begin > most + kSuspended) {
            // This process stood still itself: the others have to speak.
            pulse_.load()->beat();
        }
    }
}

RankState Watchdog::state() const {
    mpi::Pulse& pulse = *pulse_.load();
    return {pulse.silence(), pulse.waits_for() != nullptr, phase_.load()};
}

bool Watchdog::nap(double seconds) const {
    // A descriptor of -1 is passed over.
    std::array<pollfd, 2> waited = {pollfd{others_ ? others_->fd() : -1, POLLIN, 0},
                                    pollfd{wake_, POLLIN, 0}};
    constexpr double kMilliseconds = 1000;
    (void)::poll(waited.data(), waited.size(), static_cast<int>(seconds * kMilliseconds) + 1);
    return waited[0].revents != 0 && others_->answer(state());
}

void Watchdog::bark(double silence) const {
    const char* waits_for = pulse_.load()->waits_for();
    const std::string others = others_ ? others_->told(silence) : "";
    std::array<char, 4000> text{};
    (void)std::snprintf(
        text.data(), text.size(),
        "%s: no progress for %.0f s (--stall_timeout) while %s, waiting for %s: %s%s%s",
        who_.c_str(), limit_s_, phase_.load(),
        waits_for != nullptr ? waits_for : "a file of its own", others.c_str(),
        others.empty() ? "" : ": ", remedy_.load());
    tell_(text.data());
    // Where someone ends the job already, one message is enough.
    if (StopSignals::seen() != "SIGTERM") {
        (void)std::fprintf(stderr, "error: %s\n", text.data());
    }
    ::_exit(static_cast<int>(ErrorCode::launch));
}

void ExitLimit::begin(int code) {
    exit_code = code;
    (void)std::signal(SIGALRM, end_now);
    ::alarm(kExitLimit_s);
}

ExitLimit::~ExitLimit() {
    ::alarm(0);
    (void)std::signal(SIGALRM, SIG_DFL);
}

}  // namespace shardweld::app
