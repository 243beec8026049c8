#include "resources.hpp"

#include <algorithm>
#include <sched.h>
#include <thread>

#include "mpi/share.hpp"

#include "memory.hpp"
#include "stop.hpp"

namespace shardweld::app {

namespace {

/// Cores this process may run on.
Index cores_allowed() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

bool has_spare_core(Index ranks_on_host) {
    const auto online = static_cast<Index>(std::thread::hardware_concurrency());
    return std::min(cores_allowed(), online / ranks_on_host) >= 2;
}

Resources shared_resources(mpi::Comm& comm) {
    const auto hosts = mpi::gather(comm, std::string(comm.host()));
    const auto local =
        std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(comm.rank())]);
    const Bytes memory = default_memory_limit(system_memory_sources(), static_cast<int>(local));
    const Index lacks_core = has_spare_core(local) ? 0 : 1;
    return {static_cast<Bytes>(-comm.all_max(-static_cast<Index>(memory))),
            comm.all_max(lacks_core) == 0,
            static_cast<int>(comm.all_max(static_cast<Index>(local)))};
}

std::shared_ptr<io::Throttle> throttle_of(const Options& options, const mpi::Comm& comm) {
    return options.bw_limit ? std::make_shared<io::Throttle>(
                                  static_cast<double>(*options.bw_limit) / comm.size(),
                                  [] { return !StopSignals::seen().empty(); })
                            : nullptr;
}

}  // namespace shardweld::app
