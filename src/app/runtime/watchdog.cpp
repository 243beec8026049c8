#include "watchdog.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "core/system.hpp"
#include "shardweld/error.hpp"

#include "stop.hpp"

namespace shardweld::app {

namespace {

constexpr std::size_t kStack = std::size_t{256} << 10U;
constexpr double kMostNap = 2;
// What oversleeps by so much was not running.
constexpr double kSuspended = 0.5;
// Ranks that wait for the same one speak one after the other: the launcher ends the rest after the
// first.
constexpr double kTurn = 2;
constexpr int kMostTurns = 20;

volatile std::sig_atomic_t exit_code = 0;

void end_now(int) {
    ::_exit(exit_code);
}

}  // namespace

Watchdog::Watchdog(mpi::Pulse& pulse, Watched who, double limit_s)
    : pulse_(&pulse),
      limit_s_(limit_s),
      watched_(std::move(who)),
      who_("rank " + std::to_string(watched_.rank) + " (" + watched_.host + ")") {
    if (limit_s_ <= 0) {
        return;
    }
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
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    is_over_.notify_one();
    pthread_join(thread_, nullptr);
}

void* Watchdog::watch(void* self) {
    static_cast<Watchdog*>(self)->watch();
    return nullptr;
}

void Watchdog::watch() {
    const double limit = limit_s_ + kTurn * std::min(watched_.rank, kMostTurns);
    std::unique_lock lock(mutex_);
    while (!over_) {
        const double silence = pulse_.load()->silence();
        // A launcher that ends the job because of another rank kills those that outlast its
        // patience, and would return their code.
        const bool is_ended = StopSignals::seen() == "SIGTERM" && silence > limit_s_ / 2;
        const double left = is_ended ? 0 : limit - silence;
        if (left <= 0) {
            bark();
        }
        const double nap = std::min({left, limit_s_ / 10, kMostNap});
        const double begin = wall_seconds();
        is_over_.wait_for(lock, std::chrono::duration<double>(nap));
        if (wall_seconds() - begin > nap + kSuspended) {
            // This process stood still itself: the others have to speak.
            pulse_.load()->beat();
        }
    }
}

void Watchdog::bark() const {
    const char* waits_for = pulse_.load()->waits_for();
    std::array<char, 1000> text{};
    (void)std::snprintf(text.data(), text.size(),
                        "%s: no progress for %.0f s (--stall_timeout) while %s, waiting for %s: %s",
                        who_.c_str(), limit_s_, phase_.load(),
                        waits_for != nullptr ? waits_for : "a file of its own", remedy_.load());
    if (watched_.tell) {
        watched_.tell(text.data());
    }
    // Where someone ends the job already, one message is enough.
    if (StopSignals::seen() != "SIGTERM") {
        (void)std::fprintf(stderr, "shardweld: error: %s\n", text.data());
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
