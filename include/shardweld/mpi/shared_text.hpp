// One rank's text on all ranks.
// Knows nothing of what it says.
#pragma once

#include <span>
#include <string>

#include "shardweld/mpi/comm.hpp"

namespace shardweld::mpi {

/// Collective. Rank 0's text.
inline std::string shared_text(Comm& comm, const std::string& text) {
    const auto bytes = std::as_bytes(std::span(text));
    const auto shared = comm.broadcast({bytes.begin(), bytes.end()}, 0);
    return {reinterpret_cast<const char*>(shared.data()), shared.size()};
}

}  // namespace shardweld::mpi
