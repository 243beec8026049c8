#include "alarm.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "calls.hpp"

namespace shardweld::mpi {

namespace {

/// Ranks that wait leave their cores to those that work, the longer the more.
constexpr auto kFirstNap = std::chrono::microseconds(200);
constexpr auto kLongestNap = std::chrono::microseconds(5000);

}  // namespace

Alarm::Alarm(MPI_Comm parent, Pulse& starting, Pulse& pulse) : pulse_(pulse) {
    const Pulse::Wait wait(starting, "MPI_Comm_dup");
    check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
}

Alarm::~Alarm() {
    // A vote that others have not cast is left alone: waiting for it could hang a rank that is
    // unwinding an error.
    MPI_Comm_free(&comm_);
}

bool Alarm::vote(bool is_finished) {
    if (vote_ == MPI_REQUEST_NULL) {
        mine_ = {raised_ ? 1 : 0, is_finished ? 0 : 1};
        check(MPI_Iallreduce(mine_.data(), all_.data(), static_cast<int>(mine_.size()), MPI_INT,
                             MPI_MAX, comm_, &vote_),
              "MPI_Iallreduce");
    }
    int is_over = 0;
    check(MPI_Test(&vote_, &is_over, MPI_STATUS_IGNORE), "MPI_Test");
    if (is_over != 0) {
        pulse_.beat();
        heard_ = heard_ || all_[0] != 0;
    }
    return is_over != 0;
}

bool Alarm::seen() {
    (void)vote(false);
    return raised_ || heard_;
}

void Alarm::drain(const std::function<bool()>& wants_alarm) {
    // The first vote in which no rank runs any more is the last one, on every rank.
    auto nap = kFirstNap;
    while (!vote(true) || all_[1] != 0) {
        if (wants_alarm && wants_alarm()) {
            raise();
        }
        std::this_thread::sleep_for(nap);
        nap = std::min(2 * nap, kLongestNap);
    }
    raised_ = false;
    heard_ = false;
}

}  // namespace shardweld::mpi
