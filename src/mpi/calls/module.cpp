// For a program that loads this folder as a module, one for each MPI library.
#include "mpi/entry.hpp"

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

SHARDWELD_EXPORT int shardweld_mpi_abi() {
    return shardweld::mpi::kEntryAbi;
}

SHARDWELD_EXPORT const shardweld::mpi::MpiEntry* shardweld_mpi_entry() {
    return &shardweld::mpi::own_entry();
}
