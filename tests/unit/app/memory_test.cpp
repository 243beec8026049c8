#include "app/runtime/memory.hpp"

#include <map>

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

MemorySources sources_in(const test::TemporaryDirectory& place,
                         std::map<std::string, std::string> variables = {}) {
    return {place.path() / "cgroup", place.path() / "own",
            [variables = std::move(variables)](const char* name) {
                const auto found = variables.find(name);
                return found == variables.end() ? std::nullopt
                                                : std::optional<std::string>(found->second);
            }};
}

TEST(JobMemory, is_the_smallest_limit_on_the_way_up) {
    const test::TemporaryDirectory place;
    place.put("own", "0::/slurm/job_7/step_0\n");
    place.put("cgroup/slurm/job_7/step_0/memory.max", "max\n");
    place.put("cgroup/slurm/job_7/memory.max", "104857600\n");
    place.put("cgroup/slurm/memory.max", "209715200\n");
    EXPECT_EQ(job_memory(sources_in(place)), 100 * kMiB);
    EXPECT_EQ(job_memory(sources_in(place, {{"SLURM_MEM_PER_NODE", "50"}})), 50 * kMiB);
    EXPECT_EQ(
        job_memory(sources_in(place, {{"SLURM_MEM_PER_CPU", "10"}, {"SLURM_CPUS_ON_NODE", "4"}})),
        40 * kMiB);
}

TEST(JobMemory, reads_version_one_groups_and_the_root) {
    const test::TemporaryDirectory place;
    place.put("own", "12:cpu,memory:/a\n3:pids:/b\nnonsense\n");
    place.put("cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    place.put("cgroup/memory/a/memory.limit_in_bytes", "7340032\n");
    place.put("cgroup/memory/b/memory.limit_in_bytes", "1\n");
    EXPECT_EQ(job_memory(sources_in(place)), 7 * kMiB);
}

TEST(JobMemory, is_unknown_without_limits) {
    const test::TemporaryDirectory place;
    EXPECT_EQ(job_memory(sources_in(place)), std::nullopt);
    EXPECT_EQ(job_memory(sources_in(place, {{"SLURM_MEM_PER_NODE", "0"}})), std::nullopt);
    EXPECT_EQ(job_memory(sources_in(place, {{"SLURM_MEM_PER_NODE", "much"}})), std::nullopt);
}

TEST(DefaultMemoryLimit, shares_half_of_the_job_among_the_ranks_of_a_host) {
    const test::TemporaryDirectory place;
    EXPECT_EQ(default_memory_limit(sources_in(place), 4), 256 * kMiB);
    const auto slurm = [&](const char* mebibytes, int ranks) {
        return default_memory_limit(sources_in(place, {{"SLURM_MEM_PER_NODE", mebibytes}}), ranks);
    };
    EXPECT_EQ(slurm("800", 4), 100 * kMiB);
    EXPECT_EQ(slurm("100000", 2), 256 * kMiB);
    EXPECT_EQ(slurm("16", 64), kMiB);
}

}  // namespace
}  // namespace shardweld::app
