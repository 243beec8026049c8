// How this process was started, read from the variables that launchers set.
// Knows nothing of MPI calls.
#pragma once

#include <functional>

namespace shardweld::mpi {

/// The value of an environment variable, or nullptr.
using Lookup = std::function<const char*(const char*)>;

/// The MPI library whose start-up variables count.
enum class Library { open_mpi, mpich };

/// Ranks that the launcher promises: 0 when no launcher is seen (run serially, without MPI_Init),
/// 1 or more when MPI is to be initialised (1 also when the number is not told).
/// Error(launch) when several tasks were started in a way that this MPI library cannot join.
int promised_ranks(const Lookup& environment, Library library);

}  // namespace shardweld::mpi
