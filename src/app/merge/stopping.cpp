#include "stopping.hpp"

#include <cmath>
#include <ctime>

#include "shardweld/core/codec.hpp"
#include "shardweld/mpi/free_run.hpp"

namespace shardweld::app {

Stopping::Stopping(mpi::Comm& comm, std::optional<double> before_s, Log& log) {
    const auto now = static_cast<double>(std::time(nullptr));
    ByteWriter out;
    mpi::collectively(comm, [&] {
        if (comm.rank() != 0) {
            return;
        }
        const auto end = job_end();
        if (!end && before_s) {
            log.warning("--stop_before has no effect: nothing tells when this job ends");
        }
        out.put(end ? stop_time(*end, now, before_s) : time_);
    });
    const auto bytes = comm.broadcast(out.take(), 0);
    time_ = ByteReader(bytes).get<double>();
    if (std::isfinite(time_)) {
        log.debug("stops " + std::to_string(static_cast<Index>(time_ - now)) +
                  " s from now, before the job ends");
    }
}

std::string Stopping::why() const {
    if (const std::string signal = StopSignals::seen(); !signal.empty()) {
        return "stopped by " + signal;
    }
    return static_cast<double>(std::time(nullptr)) >= time_
               ? "stopped before the job ends (--stop_before)"
               : "";
}

std::string Stopping::why_before_writing() const {
    const std::string reason = why();
    return reason.empty() ? "" : reason + ": nothing was written yet";
}

void Stopping::check(mpi::Comm& comm) const {
    mpi::collectively(comm, [&] { mpi::stop_if_asked([&] { return why_before_writing(); }); });
}

}  // namespace shardweld::app
