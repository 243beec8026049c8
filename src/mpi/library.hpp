// The MPI library this program runs with.
#pragma once

#include <string>

namespace shardweld::mpi {

/// "Open MPI v4.1.4"; may be asked before MPI is initialised and after it is finalised. Local.
std::string library_name();

}  // namespace shardweld::mpi
