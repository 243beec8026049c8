#include "memory.hpp"

#include <algorithm>
#include <fstream>
#include <sched.h>
#include <thread>

#include <sys/mman.h>
#include <unistd.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "mpi/share.hpp"
#include "outputs/format.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/footprint.hpp"
#include "shardweld/error.hpp"

#include "stop.hpp"

namespace shardweld::app {

namespace {

constexpr Bytes kUsualMemory = 256 * kMiB;

void lower(std::optional<Bytes>& limit, std::optional<Bytes> other) {
    if (other && *other > 0 && (!limit || *other < *limit)) {
        limit = other;
    }
}

/// The number in a file; nullopt when it cannot be read or says "max".
std::optional<Bytes> number_in(const fs::path& path) {
    std::ifstream in(path);
    std::string text;
    if (!std::getline(in, text)) {
        return std::nullopt;
    }
    const auto number = parse_index(trim(text));
    return number ? std::optional(static_cast<Bytes>(*number)) : std::nullopt;
}

/// Limits of a cgroup and all above it.
std::optional<Bytes> limit_along(const fs::path& root, fs::path group, const char* file) {
    std::optional<Bytes> limit;
    for (int depth = 0; depth < 64; ++depth) {
        lower(limit, number_in(root / group.relative_path() / file));
        if (!group.has_relative_path()) {
            break;
        }
        group = group.parent_path();
    }
    return limit;
}

/// Lines of /proc/self/cgroup (cgroups(7)): "0::/path" for version 2, "N:memory:/path" for 1.
std::optional<Bytes> cgroup_limit(const MemorySources& sources) {
    std::optional<Bytes> limit;
    std::ifstream in(sources.own_cgroup);
    for (std::string line; std::getline(in, line);) {
        const auto first = line.find(':');
        const auto second = line.find(':', first == std::string::npos ? first : first + 1);
        if (second == std::string::npos) {
            continue;
        }
        const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
        const fs::path group = line.substr(second + 1);
        if (controllers == ",,") {
            lower(limit, limit_along(sources.cgroup_root, group, "memory.max"));
        } else if (has_part(controllers, ",memory,")) {
            lower(limit,
                  limit_along(sources.cgroup_root / "memory", group, "memory.limit_in_bytes"));
        }
    }
    return limit;
}

std::optional<Bytes> slurm_mebibytes(const MemorySources& sources, const char* name) {
    const auto text = sources.variable(name);
    const auto number = text ? parse_index(*text) : std::nullopt;
    constexpr Index kMost = Index{1} << 40;
    return number && *number < kMost ? std::optional(static_cast<Bytes>(*number)) : std::nullopt;
}

// Lists of rounds and files, requests and fragments of messages.
constexpr Bytes kBeside = Bytes{1} << 20U;
constexpr Bytes kPeerBuffers = Bytes{64} << 10U;

/// Whether the system lets this process have so much more (ulimit -d, no overcommitment). What is
/// never touched takes nothing; a cgroup's limit is only felt when it is.
bool is_granted(Bytes bytes) {
    void* const place =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return place != MAP_FAILED && ::munmap(place, bytes) == 0;
}

// Measured with Open MPI 4.1 on one node: the library's own data, and for each other rank of the
// node the pages of shared memory through which the two speak (docs/cluster/running.md).
constexpr Bytes kMpi = Bytes{1900} << 10U;
constexpr Bytes kPeer = Bytes{48} << 10U;
// For each rank of other nodes, an estimate: its address, and a connection's state and buffers.
constexpr Bytes kRemotePeer = Bytes{4} << 10U;
// Lists of a round, open files, the reading thread's stack and heap.
constexpr Bytes kRun = Bytes{256} << 10U;

/// Cores this process may run on.
Index cores_allowed() {
    cpu_set_t cores;
    CPU_ZERO(&cores);
    return ::sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

}  // namespace

MemorySources system_memory_sources() {
    MemorySources sources;
    sources.variable = variable;
    return sources;
}

std::optional<Bytes> job_memory(const MemorySources& sources) {
    std::optional<Bytes> limit = cgroup_limit(sources);
    if (const auto node = slurm_mebibytes(sources, "SLURM_MEM_PER_NODE")) {
        lower(limit, *node * kMiB);
    }
    const auto per_cpu = slurm_mebibytes(sources, "SLURM_MEM_PER_CPU");
    const auto cpus = slurm_mebibytes(sources, "SLURM_CPUS_ON_NODE");
    if (per_cpu && cpus && *cpus < kMiB && *per_cpu < (Bytes{1} << 22U)) {
        lower(limit, *per_cpu * *cpus * kMiB);
    }
    return limit;
}

Bytes default_memory_limit(const MemorySources& sources, int ranks_on_host) {
    const auto job = job_memory(sources);
    if (!job) {
        return kUsualMemory;
    }
    const auto ranks = static_cast<Bytes>(std::max(1, ranks_on_host));
    return std::clamp(*job / 2 / ranks, kMiB, kUsualMemory);
}

RankMemory RankMemory::measured_at_start() {
    return_freed_memory();
    return {resident_bytes(), 0, 0};
}

void RankMemory::measure_plan() {
    const auto above_base = [&](Bytes bytes) { return bytes - std::min(bytes, base); };
    metadata = above_base(peak_bytes());
    return_freed_memory();
    plan = above_base(resident_bytes());
}

void require_memory(mpi::Comm& comm, const plan::Plan& plan) {
    mpi::collectively(comm, [&] {
        const Bytes buffers = plan::most_buffers(plan);
        const Bytes needed =
            buffers + kBeside + kPeerBuffers * static_cast<Bytes>(plan.n_ranks() - 1);
        if (!is_granted(needed)) {
            throw Error(
                ErrorCode::memory,
                "memory ran out before tensors were moved: buffers take " + human_bytes(buffers),
                "give the job more memory per rank or lower --memory_limit");
        }
    });
}

Bytes MemoryForecast::peak() const {
    return base + std::max(metadata, plan + std::max(making, buffers));
}

MemoryForecast forecast_memory(const plan::Plan& plan, const RankMemory& measured, bool has_mpi,
                               int ranks_on_node) {
    const outputs::Memory files = plan.placement.format->memory(plan.placement);
    MemoryForecast forecast{measured.base, measured.metadata, measured.plan, files.making,
                            plan::used_buffers(plan) + kRun + files.kept};
    if (plan.n_ranks() > 1) {
        const int n_near = std::min(plan.n_ranks(), std::max(ranks_on_node, 1));
        forecast.base += (has_mpi ? 0 : kMpi) + kPeer * static_cast<Bytes>(n_near - 1) +
                         kRemotePeer * static_cast<Bytes>(plan.n_ranks() - n_near);
    }
    return forecast;
}

bool has_spare_core(Index ranks_on_host) {
    const auto online = static_cast<Index>(std::thread::hardware_concurrency());
    return std::min(cores_allowed(), online / ranks_on_host) >= 2;
}

Bytes cached_bytes() {
    const long cache = ::sysconf(_SC_LEVEL2_CACHE_SIZE);
    return cache > 0 ? std::clamp(static_cast<Bytes>(cache) / 2, kMiB / 2, kMiB) : kMiB;
}

Resources shared_resources(mpi::Comm& comm) {
    const auto hosts = mpi::gather(comm, std::string(comm.host()));
    const auto local = std::ranges::count(hosts, hosts[as_size(comm.rank())]);
    const Bytes memory = default_memory_limit(system_memory_sources(), static_cast<int>(local));
    const Index lacks_core = has_spare_core(local) ? 0 : 1;
    const auto least = [&](Bytes own) {
        return static_cast<Bytes>(-comm.all_max(-static_cast<Index>(own)));
    };
    return {least(memory), comm.all_max(lacks_core) == 0,
            static_cast<int>(comm.all_max(static_cast<Index>(local))), least(cached_bytes())};
}

std::shared_ptr<io::Throttle> throttle_of(const Job& job, const mpi::Comm& comm) {
    return job.run.bw_limit ? std::make_shared<io::Throttle>(
                                  static_cast<double>(*job.run.bw_limit) / comm.size(),
                                  [] { return !StopSignals::seen().empty(); })
                            : nullptr;
}

}  // namespace shardweld::app
