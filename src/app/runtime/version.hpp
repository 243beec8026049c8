// What this program calls itself.
#pragma once

#include <string>

namespace shardweld::app {

std::string version();      ///< "0.1.0"
std::string git_version();  ///< of the sources, "unknown" when not built from a git checkout
/// What results and speed may depend on, one a line: compiler, MPI library, HDF5 library, the
/// processor's instruction sets that are used. Local; starts no MPI.
std::string build_text();

}  // namespace shardweld::app
