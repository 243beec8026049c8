// How much memory this process may use, how much it has used, what a plan will take, and what else
// the ranks of a node share.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "app/settings/job.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "io/throttle.hpp"
#include "mpi/comm.hpp"

namespace shardweld::plan {
struct Plan;
}  // namespace shardweld::plan

namespace shardweld::app {

/// Where limits are read from; tests give their own.
struct MemorySources {
    fs::path cgroup_root = "/sys/fs/cgroup";
    fs::path own_cgroup = "/proc/self/cgroup";
    std::function<std::optional<std::string>(const char*)> variable;
};
MemorySources system_memory_sources();

/// The smallest memory limit of this process' cgroups and of its Slurm job on this node; nullopt
/// when there is none.
std::optional<Bytes> job_memory(const MemorySources& sources);

/// --memory_limit when it is not given: 256 MiB, or half of the job's memory shared by the ranks on
/// this host where that is less; never below 1 MiB.
Bytes default_memory_limit(const MemorySources& sources, int ranks_on_host);

/// What one rank's process held, measured: anonymous and shared memory in bytes.
struct RankMemory {
    Bytes base = 0;      ///< before anything was read: the program and MPI
    Bytes metadata = 0;  ///< beside it, at most, until the plan was made
    Bytes plan = 0;      ///< beside it, when the plan was made

    /// Before anything is read. What was freed so far goes back to the system: it is not the
    /// program's.
    static RankMemory measured_at_start();
    /// Nothing but the plan is needed from now on: what was freed goes back to the system.
    void measure_plan();
};

/// Collective. Error(memory) when a rank cannot have the plan's buffers and what MPI takes for
/// messages. Asked before anything is written: MPI ends a job in which it finds no memory itself,
/// and nobody clears up.
void require_memory(mpi::Comm& comm, const plan::Plan& plan);

/// Bytes of anonymous and shared memory of the largest rank.
struct MemoryForecast {
    Bytes base = 0;      ///< the program, and MPI where there are several ranks
    Bytes metadata = 0;  ///< at most, until the plan is made
    Bytes plan = 0;      ///< when it is made
    Bytes making = 0;    ///< files, by a library, beside the plan
    Bytes buffers = 0;   ///< in use at most while tensors move, what that library keeps included

    [[nodiscard]] Bytes peak() const;
};

/// What a merge by the plan's ranks takes, so many of them on a node. `measured`: what planning
/// took in this process, which does the same until the first tensor moves; `has_mpi`: MPI is among
/// it.
MemoryForecast forecast_memory(const plan::Plan& plan, const RankMemory& measured, bool has_mpi,
                               int ranks_on_node);

/// What this job's ranks may use of their nodes: memory and cores.
struct Resources {
    Bytes memory_limit = 0;       ///< of a rank, where --memory_limit does not say it
    bool has_spare_core = false;  ///< every rank has two cores at least
    int ranks_on_node = 1;        ///< of the node that has the most
    Bytes cached_bytes = kMiB;    ///< that one round of a rank makes, at most
};

/// Whether each of so many ranks on this node has two cores; one that is not bound shares all cores
/// with the others.
bool has_spare_core(Index ranks_on_host);

/// What a round may make so that it is still in the second-level cache of this machine's cores when
/// it is written: half of that, between 512 KiB, below which rounds themselves cost more, and 1
/// MiB, above which nothing is gained (docs/measurements/performance.md); 1 MiB where it is not
/// told.
Bytes cached_bytes();

/// Collective. The least that any rank has, so that all make the same plan.
Resources shared_resources(mpi::Comm& comm);

/// This rank's even share of --bw_limit; null where none is given.
std::shared_ptr<io::Throttle> throttle_of(const Job& job, const mpi::Comm& comm);

}  // namespace shardweld::app
