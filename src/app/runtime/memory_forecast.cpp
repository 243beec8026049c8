#include "memory_forecast.hpp"

#include <algorithm>

#include "shardweld/plan/footprint.hpp"

namespace shardweld::app {

namespace {

// Measured with Open MPI 4.1 on one node: the library's own data, and for each other rank of the
// node the pages of shared memory through which the two speak (docs/cluster/running.md).
constexpr Bytes kMpi = Bytes{2600} << 10U;
constexpr Bytes kPeer = Bytes{48} << 10U;
// Lists of a round, open files, the reading thread's stack and heap.
constexpr Bytes kRun = Bytes{256} << 10U;
// Measured with parallel HDF5 1.10.8: the library once it is loaded; for each dataset of a file
// what it keeps until its cache is full (src/hdf5/create.cpp) and what the file gets; our lists.
constexpr Bytes kHdf5 = Bytes{1536} << 10U;
constexpr Bytes kCachedDataset = 6656;
constexpr Bytes kCachedDatasets = Bytes{14} << 20U;
constexpr Bytes kMadeDataset = 512;
constexpr Bytes kListedDataset = 400;

void add_hdf5(const outputs::Placement& placement, MemoryForecast& forecast) {
    Bytes largest = 0;
    Bytes all = 0;
    for (const outputs::OutputFile& file : placement.files) {
        largest = std::max<Bytes>(largest, file.tensors.size());
        all += file.tensors.size();
    }
    forecast.making = kHdf5 + std::min(largest * kCachedDataset, kCachedDatasets) +
                      largest * kMadeDataset + all * kListedDataset;
    forecast.buffers += kHdf5;
}

}  // namespace

Bytes MemoryForecast::peak() const {
    return base + std::max(metadata, plan + std::max(making, buffers));
}

MemoryForecast forecast_memory(const plan::Plan& plan, const RankMemory& measured, bool has_mpi) {
    MemoryForecast forecast{measured.base, measured.metadata, measured.plan, 0,
                            plan::used_buffers(plan) + kRun};
    if (plan.placement.format == outputs::OutputFormat::hdf5) {
        add_hdf5(plan.placement, forecast);
    }
    if (plan.n_ranks() > 1) {
        forecast.base += (has_mpi ? 0 : kMpi) + kPeer * static_cast<Bytes>(plan.n_ranks() - 1);
    }
    return forecast;
}

}  // namespace shardweld::app
