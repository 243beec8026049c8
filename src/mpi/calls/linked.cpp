// For a program that is linked with one MPI library.
#include "mpi/entry.hpp"

namespace shardweld::mpi {

MpiLibrary library_of(const Lookup& /*environment*/) {
    return own_entry().library;
}

const MpiEntry& entry_to(MpiLibrary /*library*/) {
    return own_entry();
}

}  // namespace shardweld::mpi
