// How much memory this process may use.
// Knows cgroups and Slurm's variables; nothing of what the memory is for.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "shardweld/core/index.hpp"

namespace shardweld::app {

/// Where limits are read from; tests give their own.
struct MemorySources {
    std::filesystem::path cgroup_root = "/sys/fs/cgroup";
    std::filesystem::path own_cgroup = "/proc/self/cgroup";
    std::function<std::optional<std::string>(const char*)> variable;
};
MemorySources system_memory_sources();

/// The smallest memory limit of this process' cgroups and of its Slurm job on this node; nullopt
/// when there is none.
std::optional<Bytes> job_memory(const MemorySources& sources);

/// --memory_limit when it is not given: 256 MiB, or half of the job's memory shared by the ranks on
/// this host where that is less; never below 1 MiB.
Bytes default_memory_limit(const MemorySources& sources, int ranks_on_host);

}  // namespace shardweld::app
