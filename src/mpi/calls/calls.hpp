// Turns return codes of MPI calls into errors, and waits for other ranks.
#pragma once

#include <functional>
#include <span>
#include <string>

#include <mpi.h>

#include "core/index.hpp"
#include "shardweld/error.hpp"

namespace shardweld::mpi {

/// Throws Error(launch) naming `call` and MPI's own text unless `result` is MPI_SUCCESS.
inline void check(int result, const char* call) {
    if (result == MPI_SUCCESS) {
        return;
    }
    std::string text(MPI_MAX_ERROR_STRING, '\0');
    int length = 0;
    if (MPI_Error_string(result, text.data(), &length) != MPI_SUCCESS) {
        length = 0;
    }
    text.resize(as_size(length));
    throw Error(
        ErrorCode::launch,
        std::string(call) + " failed: " + text + " (MPI error " + std::to_string(result) + ")",
        "check the network and the MPI installation of all hosts");
}

inline int size_of_group(MPI_Comm comm) {
    int size = 0;
    check(MPI_Comm_size(comm, &size), "MPI_Comm_size");
    return size;
}

inline int rank_in_group(MPI_Comm comm) {
    int rank = 0;
    check(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    return rank;
}

/// Looks again and again at whether `is_over`; in between, this rank leaves its core to those that
/// work, the longer the more.
void sleep_until(const std::function<bool()>& is_over);

/// Elementwise over all ranks, in place. Collective; a rank that waits sleeps, where MPI's own
/// waiting takes a core.
void reduce_in_place(MPI_Comm comm, std::span<Index> values, MPI_Op op);

}  // namespace shardweld::mpi
