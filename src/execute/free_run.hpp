// A phase in which ranks go their own way. Knows how it ends for all; nothing of what is done in
// it.
#pragma once

#include <functional>
#include <string>

#include "shardweld/mpi/comm.hpp"

namespace shardweld::execute {

/// Error(stopped) when there is a reason; `why_stop` may be empty.
void stop_if_asked(const std::function<std::string()>& why_stop);

/// Collective. Calls `step` until it returns false, on each rank as often as it likes. An error of
/// any rank, and Error(stopped) when one has a reason to stop, ends the phase for all and is thrown
/// on every rank.
void run_freely(mpi::Comm& comm, const std::function<std::string()>& why_stop,
                const std::function<bool()>& step);

}  // namespace shardweld::execute
