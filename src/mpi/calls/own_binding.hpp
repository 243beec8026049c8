// The binding to the MPI library whose header this folder is compiled with.
#pragma once

#include "../binding.hpp"

namespace shardweld::mpi {

const Binding& own_binding();

}  // namespace shardweld::mpi
