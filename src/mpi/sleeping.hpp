// Work of the first rank that takes hours at times, while the others leave their cores to whoever
// needs them.
#pragma once

#include <functional>

#include "comm.hpp"

namespace shardweld::mpi {

/// Whether the work is to end early, for the one that does it; cheap, to be asked often.
using IsCalled = std::function<bool()>;

/// Collective. Runs `work` on the first rank while the others sleep; an error is everyone's.
/// `wants_end` (may be empty) is asked on the others, again and again: once one of them says so the
/// work is told.
void while_others_sleep(Comm& comm, const std::function<void(const IsCalled&)>& work,
                        const std::function<bool()>& wants_end = {});

}  // namespace shardweld::mpi
