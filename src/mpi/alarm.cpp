#include "alarm.hpp"

#include <algorithm>

#include "calls.hpp"

namespace shardweld::mpi {

namespace {
constexpr int kAlarmTag = 2;
}

Alarm::Alarm(MPI_Comm parent) : received_(slot(size_of_group(parent)), 0) {
    check(MPI_Comm_dup(parent, &comm_), "MPI_Comm_dup");
}

Alarm::~Alarm() {
    // Sends that nobody took are let go: messages without content complete without a receiver, and
    // waiting for them here could hang a rank that is unwinding an error.
    for (MPI_Request& send : sends_) {
        if (send != MPI_REQUEST_NULL) {
            MPI_Request_free(&send);
        }
    }
    MPI_Comm_free(&comm_);
}

void Alarm::raise() {
    if (raised_) {
        return;
    }
    raised_ = true;
    const int self = rank_in_group(comm_);
    for (int rank = 0; slot(rank) < received_.size(); ++rank) {
        if (rank != self) {
            check(MPI_Isend(nullptr, 0, MPI_BYTE, rank, kAlarmTag, comm_, &sends_.emplace_back()),
                  "MPI_Isend");
        }
    }
}

void Alarm::receive_from(int rank) {
    check(MPI_Recv(nullptr, 0, MPI_BYTE, rank, kAlarmTag, comm_, MPI_STATUS_IGNORE), "MPI_Recv");
    received_[slot(rank)] = 1;
    any_received_ = true;
}

bool Alarm::seen() {
    int waiting = 1;
    while (waiting != 0) {
        MPI_Status status{};
        check(MPI_Iprobe(MPI_ANY_SOURCE, kAlarmTag, comm_, &waiting, &status), "MPI_Iprobe");
        if (waiting != 0) {
            receive_from(status.MPI_SOURCE);
        }
    }
    return raised_ || any_received_;
}

void Alarm::drain() {
    const char mine = raised_ ? 1 : 0;
    std::vector<char> raised(received_.size(), 0);
    check(MPI_Allgather(&mine, 1, MPI_CHAR, raised.data(), 1, MPI_CHAR, comm_), "MPI_Allgather");
    const int self = rank_in_group(comm_);
    for (int rank = 0; slot(rank) < raised.size(); ++rank) {
        if (rank != self && raised[slot(rank)] != 0 && received_[slot(rank)] == 0) {
            receive_from(rank);
        }
    }
    check(MPI_Waitall(static_cast<int>(sends_.size()), sends_.data(), MPI_STATUSES_IGNORE),
          "MPI_Waitall");
    sends_.clear();
    raised_ = false;
    any_received_ = false;
    std::fill(received_.begin(), received_.end(), char{0});
    // Nobody may raise the flag of the next phase before all have forgotten this one.
    check(MPI_Barrier(comm_), "MPI_Barrier");
}

}  // namespace shardweld::mpi
