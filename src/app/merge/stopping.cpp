#include "stopping.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "mpi/free_run.hpp"
#include "mpi/share.hpp"

namespace shardweld::app {

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

}  // namespace shardweld::app
