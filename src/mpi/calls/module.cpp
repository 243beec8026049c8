// For a program that loads this folder as a module, one for each MPI library.
#include "../binding.hpp"

#define SHARDWELD_EXPORT extern "C" __attribute__((visibility("default")))

SHARDWELD_EXPORT int shardweld_mpi_abi() {
    return shardweld::mpi::kBindingAbi;
}

SHARDWELD_EXPORT const shardweld::mpi::Binding* shardweld_mpi_binding() {
    return &shardweld::mpi::own_binding();
}
