// The name of the machine this rank runs on.
// Knows nothing of MPI.
#pragma once

#include <string>

namespace shardweld::mpi {

std::string host_name();

}  // namespace shardweld::mpi
