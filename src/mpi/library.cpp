#include "shardweld/mpi/library.hpp"

#include <algorithm>

#include <mpi.h>

#include "calls.hpp"

namespace shardweld::mpi {

std::string library_name() {
    std::string text(MPI_MAX_LIBRARY_VERSION_STRING, ' ');
    int length = 0;
    check(MPI_Get_library_version(text.data(), &length), "MPI_Get_library_version");
    // Some libraries add their whole configuration; the first part names the version.
    return text.substr(0, std::min(text.find_first_of(",\n"), static_cast<std::size_t>(length)));
}

}  // namespace shardweld::mpi
