// For a program that is linked with one MPI library.
#include "../binding.hpp"

namespace shardweld::mpi {

MpiLibrary library_of(const Lookup& /*environment*/) {
    return own_binding().library;
}

const Binding& binding_to(MpiLibrary /*library*/) {
    return own_binding();
}

}  // namespace shardweld::mpi
