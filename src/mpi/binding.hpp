// An MPI library as the program sees it: linked with it, or loaded when ranks are started.
// Knows no MPI call.
#pragma once

#include <memory>
#include <string>

#include "shardweld/mpi/comm.hpp"

#include "launch.hpp"

namespace shardweld::mpi {

struct Binding {
    MpiLibrary library = MpiLibrary::open_mpi;
    std::string (*name)() = nullptr;             ///< "Open MPI v4.1.4"; starts nothing
    std::unique_ptr<Comm> (*start)() = nullptr;  ///< initialises MPI; collective
};

/// The library through which ranks meet that were started like this one.
MpiLibrary library_of(const Lookup& environment);

/// Error(launch) when the library has to be loaded and is not there.
const Binding& binding_to(MpiLibrary library);

/// The interface between the program and a module with a binding; raised when Comm or Binding
/// changes.
inline constexpr int kBindingAbi = 1;

/// The binding to the MPI library whose header this folder is compiled with.
const Binding& own_binding();

}  // namespace shardweld::mpi
