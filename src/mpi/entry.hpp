// An MPI library as the program sees it: linked with it, or loaded when ranks are started.
#pragma once

#include <memory>
#include <string>

#include "comm.hpp"
#include "launch.hpp"

namespace shardweld::mpi {

/// Where a program enters an MPI library.
struct MpiEntry {
    MpiLibrary library = MpiLibrary::open_mpi;
    std::string (*name)() = nullptr;  ///< "Open MPI v4.1.4"; starts nothing
    /// Initialises MPI; collective. The pulse tells which call the rank is in.
    std::unique_ptr<Comm> (*start)(Pulse&) = nullptr;
};

/// The library through which ranks meet that were started like this one.
MpiLibrary library_of(const Lookup& environment);

/// Error(launch) when the library has to be loaded and is not there.
const MpiEntry& entry_to(MpiLibrary library);

/// The interface between the program and a module for one MPI library; raised when Comm or MpiEntry
/// changes.
inline constexpr int kEntryAbi = 3;

/// The entry of the MPI library whose header mpi/calls is compiled with.
const MpiEntry& own_entry();

}  // namespace shardweld::mpi
