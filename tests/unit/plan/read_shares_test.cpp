#include <gtest/gtest.h>

#include "catalogue/records.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/traffic.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

/// A bf16 target of `mib` MiB that lies in `file` from MiB `at` on.
Target target(const std::string& name, Index mib, std::uint32_t file, Bytes at) {
    return test::flat_target(name, DType::bf16, mib * static_cast<Index>(kMiB / 2), file,
                             at * kMiB);
}

/// Targets of 1 MiB: `sizes[file]` of them in each file, one file after the other in the output.
std::vector<Target> targets_of(const std::vector<Index>& sizes) {
    std::vector<Target> targets;
    for (std::uint32_t file = 0; file < sizes.size(); ++file) {
        for (Index i = 0; i < sizes[file]; ++i) {
            targets.push_back(
                target("t" + std::to_string(100 + file) + "." + std::to_string(1000 + i), 1, file,
                       static_cast<Bytes>(i)));
        }
    }
    return targets;
}

std::vector<catalogue::File> files_of(const std::vector<Index>& sizes) {
    std::vector<catalogue::File> files;
    for (const Index size : sizes) {
        files.push_back({"f" + std::to_string(files.size()), static_cast<Bytes>(size) * kMiB});
    }
    return files;
}

/// Two nodes of four ranks; `seeing[file]`: 0 or 1 for one node, 2 for both.
Visibility two_nodes(const std::vector<int>& seeing) {
    Visibility visibility{{0, 0, 0, 0, 1, 1, 1, 1}, {{}, {}}};
    for (const int node : seeing) {
        visibility.group_sees[0].push_back(node != 1);
        visibility.group_sees[1].push_back(node != 0);
    }
    return visibility;
}

Plan plan_of(const std::vector<Index>& sizes, Visibility visibility, Strategy strategy) {
    JobPlan choice;
    choice.strategy = strategy;
    return make_plan(targets_of(sizes), files_of(sizes), std::move(visibility), choice);
}

void expect_readers_see(const Plan& plan) {
    for (std::size_t owner = 0; owner + 1 < plan.cuts.size(); ++owner) {
        for (const Slice& slice : slices_of(plan, {plan.cuts[owner], plan.cuts[owner + 1]})) {
            const Target& one = plan.target_of(slice.tensor);
            const Operand& operand = one.operands.front();
            const int reader = plan.reader_of(operand, one, static_cast<int>(owner));
            EXPECT_TRUE(plan.visibility.sees(reader, operand.file))
                << one.name.text() << " for rank " << owner << " by rank " << reader;
        }
    }
}

TEST(ReadShares, of_a_node_share_what_only_it_sees) {
    // Files of the two nodes take turns: a cut of all bytes in file order gives most ranks files
    // that they do not see.
    const std::vector<Index> sizes{64, 32, 64, 32, 64, 32};
    const Visibility nodes = two_nodes({0, 1, 0, 1, 0, 1});
    const Plan plan = plan_of(sizes, nodes, Strategy::collective);
    expect_readers_see(plan);
    const Traffic traffic = traffic_of(plan);
    for (std::size_t rank = 0; rank < 8; ++rank) {
        const double fair = (rank < 4 ? 3 * 64 : 3 * 32) / 4.0 * static_cast<double>(kMiB);
        EXPECT_NEAR(static_cast<double>(traffic.ranks[rank].bytes_read), fair,
                    1.5 * static_cast<double>(kMiB))
            << "rank " << rank;
    }
    expect_readers_see(plan_of(sizes, nodes, Strategy::direct));
}

TEST(ReadShares, of_shared_files_make_up_for_what_others_read_of_their_own) {
    // The first node alone sees a third of the bytes: of the rest it reads less.
    const Plan plan = plan_of({64, 128}, two_nodes({0, 2}), Strategy::collective);
    expect_readers_see(plan);
    const Spread read = spread_of(traffic_of(plan).ranks, &RankTraffic::bytes_read);
    EXPECT_EQ(read.total, 192.0 * static_cast<double>(kMiB));
    EXPECT_LE(read.imbalance(), 1.05);
    EXPECT_GE(read.least, 0.95 * read.mean);
}

TEST(ReadShares, leave_the_rest_of_a_node_to_ranks_that_read_little_for_themselves) {
    // Under direct the first ranks own what their node holds, the last ranks of the node what the
    // other node holds.
    const Plan plan = plan_of({96, 96, 96, 96}, two_nodes({0, 1, 1, 0}), Strategy::direct);
    expect_readers_see(plan);
    EXPECT_LE(spread_of(traffic_of(plan).ranks, &RankTraffic::bytes_read).imbalance(), 1.05);
}

TEST(ReadShares, are_the_owners_where_all_see_all) {
    const std::vector<Index> sizes{64, 64};
    EXPECT_TRUE(plan_of(sizes, Visibility::everywhere(8, 2), Strategy::direct).read_cuts.empty());
    EXPECT_EQ(plan_of(sizes, Visibility::everywhere(8, 2), Strategy::collective).read_cuts.size(),
              8U);
}

/// 512 tensors of 1 MiB of which the first 32 lie in 16 more places each.
Plan with_replicas(int n_ranks, Replicas replicas, const catalogue::Records* records = nullptr) {
    std::vector<Target> targets = targets_of({512});
    for (std::size_t i = 0; i < 32; ++i) {
        for (std::uint32_t file = 1; file <= 16; ++file) {
            targets[i].replicas.push_back({file, i * kMiB, targets[i].operands.front().copy});
        }
    }
    JobPlan choice;
    choice.strategy = Strategy::direct;
    choice.replicas = replicas;
    choice.records = records;
    return make_plan(std::move(targets), files_of(std::vector<Index>(17, 512)),
                     Visibility::everywhere(n_ranks, 17), choice);
}

TEST(Samples, burden_no_owner_much_more_than_others) {
    const Plan plan = with_replicas(16, Replicas::automatic);
    EXPECT_EQ(plan.replica_bytes, 512 * kMiB);
    // A twentieth of the 32 tensors.
    EXPECT_NEAR(static_cast<double>(plan.compared_bytes), 1.6 * static_cast<double>(kMiB), 1000.0);
    EXPECT_LE(spread_of(traffic_of(plan).ranks, &RankTraffic::bytes_read).imbalance(), 1.05);
}

TEST(Samples, are_all_or_nothing_where_that_is_asked_for) {
    EXPECT_EQ(with_replicas(1, Replicas::verify).compared_bytes, 512 * kMiB);
    EXPECT_EQ(with_replicas(1, Replicas::trust).compared_bytes, 0U);
}

/// Tensor i is record i of each file, `bytes` long, and states the checksum i + 1.
catalogue::Records records_of(Bytes bytes) {
    catalogue::Records records;
    for (std::uint32_t file = 0; file <= 16; ++file) {
        for (std::uint32_t i = 0; i < (file == 0 ? 512U : 32U); ++i) {
            records.all.push_back({file, i + 1, i * kMiB, bytes, 0});
        }
    }
    catalogue::index_files(records);
    return records;
}

TEST(Samples, are_of_what_no_checksum_tells) {
    catalogue::Records records = records_of(kMiB);
    Plan plan = with_replicas(1, Replicas::automatic, &records);
    EXPECT_EQ(plan.replica_bytes, 512 * kMiB);
    EXPECT_EQ(plan.equal_bytes, 512 * kMiB);
    EXPECT_EQ(plan.compared_bytes, 0U);
    EXPECT_TRUE(plan.targets.front().replicas.empty());
    EXPECT_EQ(with_replicas(1, Replicas::verify, &records).compared_bytes, 512 * kMiB);
    // One that states none, one that is longer, and one of 16 that states another: of this tensor
    // that one is compared.
    records.all[512 + 3].crc32 = 0;
    records.all[512 + 4].bytes -= 1;
    records.all[512 + 5].crc32 = 99;
    plan = with_replicas(1, Replicas::automatic, &records);
    EXPECT_EQ(plan.equal_bytes, 509 * kMiB);
    EXPECT_EQ(plan.compared_bytes, 3 * kMiB);
    for (const std::size_t i : {3U, 4U, 5U}) {
        EXPECT_EQ(plan.targets[i].replicas.size(), 1U);
        EXPECT_EQ(plan.sample_every[i], 1U);
    }
}

TEST(Samples, are_no_samples_where_checksums_differ) {
    catalogue::Records records = records_of(kMiB);
    for (catalogue::StorageRecord& record : records.all) {
        record.crc32 = record.file == 0 ? record.crc32 : record.offset == kMiB ? 7777U : 0U;
    }
    const Plan plan = with_replicas(1, Replicas::automatic, &records);
    EXPECT_EQ(plan.equal_bytes, 0U);
    EXPECT_EQ(plan.sample_every[1], 1U);
    EXPECT_EQ(plan.sample_every[2], 320U);
    EXPECT_GT(plan.compared_bytes, 16 * kMiB);
}

}  // namespace
}  // namespace shardweld::plan
