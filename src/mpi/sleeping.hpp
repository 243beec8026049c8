// Work of the first rank that takes hours at times, while the others leave their cores to whoever
// needs them.
#pragma once

#include <functional>

#include "comm.hpp"

namespace shardweld::mpi {

/// Collective. Runs `work` on the first rank while the others sleep; an error is everyone's.
void while_others_sleep(Comm& comm, const std::function<void()>& work);

}  // namespace shardweld::mpi
