#include "memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "shardweld/core/text.hpp"

namespace shardweld::app {

namespace {

namespace fs = std::filesystem;

constexpr Bytes kUsual = 256 * kMiB;

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
        } else if (controllers.find(",memory,") != std::string::npos) {
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

}  // namespace

MemorySources system_memory_sources() {
    MemorySources sources;
    sources.variable = [](const char* name) {
        const char* value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): no threads yet
        return value == nullptr ? std::nullopt : std::optional<std::string>(value);
    };
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
        return kUsual;
    }
    const auto ranks = static_cast<Bytes>(std::max(1, ranks_on_host));
    return std::clamp(*job / 2 / ranks, kMiB, kUsual);
}

}  // namespace shardweld::app
