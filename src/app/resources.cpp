#include "resources.hpp"

#include <algorithm>
#include <sched.h>
#include <thread>

#include "memory.hpp"

namespace shardweld::app {

namespace {

/// Cores this process may run on.
Index cores_allowed() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

Resources shared_resources(mpi::Comm& comm) {
    const auto hosts = comm.all_gather(std::as_bytes(std::span(comm.host())));
    const auto local =
        std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(comm.rank())]);
    const Bytes memory = default_memory_limit(system_memory_sources(), static_cast<int>(local));
    // A rank that is not bound shares all cores with the others of its node.
    const auto online = static_cast<Index>(std::thread::hardware_concurrency());
    const Index cores = std::min(cores_allowed(), online / local);
    return {static_cast<Bytes>(-comm.all_max(-static_cast<Index>(memory))),
            -comm.all_max(-cores) >= 2};
}

}  // namespace shardweld::app
