#include "version.hpp"

#include "mpi/library.hpp"
#include "numeric/processor.hpp"
#include "outputs/hdf5_library.hpp"

#ifndef SHARDWELD_VERSION
#define SHARDWELD_VERSION "unknown"
#endif
#ifndef SHARDWELD_GIT
#define SHARDWELD_GIT "unknown"
#endif

namespace shardweld::app {

std::string version() {
    return SHARDWELD_VERSION;
}
std::string git_version() {
    return SHARDWELD_GIT;
}

std::string build_text() {
#ifdef __clang__
    const std::string compiler = __VERSION__;  // names itself
#else
    const std::string compiler = "GCC " __VERSION__;
#endif
    return "compiler: " + compiler + "\nMPI: " + mpi::library_name() +
           "\nHDF5: " + outputs::hdf5_library() + "\nprocessor: " + numeric::instruction_sets() +
           "\n";
}

}  // namespace shardweld::app
