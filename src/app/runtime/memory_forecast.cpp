#include "memory_forecast.hpp"

#include <algorithm>

#include "shardweld/outputs/format.hpp"
#include "shardweld/plan/footprint.hpp"
#include "shardweld/plan/plan.hpp"

namespace shardweld::app {

namespace {

// Measured with Open MPI 4.1 on one node: the library's own data, and for each other rank of the
// node the pages of shared memory through which the two speak (docs/cluster/running.md).
constexpr Bytes kMpi = Bytes{2600} << 10U;
constexpr Bytes kPeer = Bytes{48} << 10U;
// Lists of a round, open files, the reading thread's stack and heap.
constexpr Bytes kRun = Bytes{256} << 10U;

}  // namespace

Bytes MemoryForecast::peak() const {
    return base + std::max(metadata, plan + std::max(making, buffers));
}

MemoryForecast forecast_memory(const plan::Plan& plan, const RankMemory& measured, bool has_mpi) {
    const outputs::Memory files = plan.placement.format->memory(plan.placement);
    MemoryForecast forecast{measured.base, measured.metadata, measured.plan, files.making,
                            plan::used_buffers(plan) + kRun + files.kept};
    if (plan.n_ranks() > 1) {
        forecast.base += (has_mpi ? 0 : kMpi) + kPeer * static_cast<Bytes>(plan.n_ranks() - 1);
    }
    return forecast;
}

}  // namespace shardweld::app
