// What this job's ranks may use of their nodes: memory and cores.
// Knows the system and the group of ranks; nothing of what the resources are for.
#pragma once

#include <memory>
#include <optional>

#include "app/settings/options.hpp"
#include "core/index.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"

namespace shardweld::app {

struct Resources {
    Bytes memory_limit = 0;       ///< of a rank, where --memory_limit does not say it
    bool has_spare_core = false;  ///< every rank has two cores at least
    int ranks_on_node = 1;        ///< of the node that has the most
};

/// Whether each of so many ranks on this node has two cores; one that is not bound shares all cores
/// with the others.
bool has_spare_core(Index ranks_on_host);

/// Collective. The least that any rank has, so that all make the same plan.
Resources shared_resources(mpi::Comm& comm);

/// This rank's even share of --bw_limit; null where none is given.
std::shared_ptr<io::Throttle> throttle_of(const Options& options, const mpi::Comm& comm);

}  // namespace shardweld::app
