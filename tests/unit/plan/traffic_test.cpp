#include "plan/schedule/traffic.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "plan/schedule/reading.hpp"

namespace shardweld::plan {
namespace {

using layout::Copy;

Copy copy_of(std::initializer_list<layout::Loop> loops, Index src_offset = 0,
             Index dst_offset = 0) {
    Copy copy;
    copy.src_offset = src_offset;
    copy.dst_offset = dst_offset;
    copy.loops = loops;
    return copy;
}

/// Two-byte elements in rounds of 1 MiB, read through windows of 1 MiB.
Reading reading(const Copy& copy, bool is_sent = false) {
    return reading_of(copy, {2, 524'288, 0, kMiB, is_sent});
}

TEST(Reading, of_one_long_run_is_one_request_a_round) {
    const Reading whole = reading(copy_of({{4 * 524'288, 1, 1}}));
    EXPECT_EQ(whole.requests, 4);
    EXPECT_EQ(whole.bytes, 4 * kMiB);
    EXPECT_EQ(reading(copy_of({{100, 1, 1}})).requests, 1);
    EXPECT_EQ(reading(copy_of({})).bytes, 2U);
}

TEST(Reading, of_long_runs_is_a_request_for_each) {
    // 64 runs of 64 KiB with as much between them.
    const Reading runs = reading(copy_of({{64, 65'536, 32'768}, {32'768, 1, 1}}));
    EXPECT_EQ(runs.requests, 64);
    EXPECT_EQ(runs.bytes, 4 * kMiB);
}

TEST(Reading, of_short_runs_shares_windows_and_reads_small_gaps) {
    // Rows of 1 KiB with 1 KiB between them in the source: 1024 of them make a round of dense rows.
    const Reading rows = reading(copy_of({{1024, 1024, 512}, {512, 1, 1}}));
    EXPECT_EQ(rows.requests, 2);
    EXPECT_EQ(rows.bytes, 2 * kMiB - 1024);
    // With 99 KiB between them each row is read by itself.
    const Reading apart = reading(copy_of({{1024, 51'200, 512}, {512, 1, 1}}));
    EXPECT_EQ(apart.requests, 1024);
    EXPECT_EQ(apart.bytes, kMiB);
}

TEST(Reading, of_a_shard_cut_by_columns_is_dense_in_its_file) {
    // A quarter of each row of 4 KiB: 256 rows of the target make a round, 256 KiB of the shard.
    const Copy columns = copy_of({{1024, 512, 2048}, {512, 1, 1}});
    for (const bool is_sent : {false, true}) {
        EXPECT_EQ(reading(columns, is_sent).requests, 4);
        EXPECT_EQ(reading(columns, is_sent).bytes, kMiB);
    }
}

TEST(Reading, of_a_transposed_shard_reads_gaps_in_every_round) {
    // 1024 x 1024 elements, stored column by column: half of the rows are a round, 1 KiB runs with
    // as much between them.
    const Reading transposed = reading(copy_of({{1024, 1, 1024}, {1024, 1024, 1}}));
    EXPECT_EQ(transposed.requests, 4);
    EXPECT_EQ(transposed.bytes, 2 * (2 * kMiB - 1024));
}

/// One bf16 target of [n] elements from `files`, an equal part from each.
Target target(const std::string& name, Index n, std::vector<std::uint32_t> files) {
    Target made;
    made.name = name;
    made.stored = made.dtype = DType::bf16;
    made.shape = {n};
    const Index part = n / static_cast<Index>(files.size());
    for (std::size_t i = 0; i < files.size(); ++i) {
        made.operands.push_back(
            {files[i], 0, copy_of({{part, 1, 1}}, 0, static_cast<Index>(i) * part)});
    }
    return made;
}

const std::vector<catalogue::File> kFiles{{"a", 8 * kMiB}, {"b", 8 * kMiB}};

Plan plan_of(std::vector<Target> targets, Visibility visibility, Strategy strategy,
             Replicas replicas = Replicas::automatic) {
    JobPlan choice;
    choice.strategy = strategy;
    choice.replicas = replicas;
    choice.max_shard_size = 4 * kMiB;
    return make_plan(std::move(targets), kFiles, std::move(visibility), choice);
}

/// 512 MiB in bf16, stored column by column or row by row, for 16 ranks.
Plan plan_of_square(bool is_transposed, Strategy asked = Strategy::automatic) {
    constexpr Index kRows = 16'384;
    Target square = target("w", kRows * kRows, {0});
    if (is_transposed) {
        square.operands.own()[0].copy = copy_of({{kRows, 1, kRows}, {kRows, kRows, 1}});
    }
    return plan_of({square}, Visibility::everywhere(16, kFiles.size()), asked);
}

TEST(Strategy, is_direct_unless_owners_would_read_much_again) {
    const Plan rows = plan_of_square(false);
    EXPECT_EQ(rows.strategy, Strategy::direct);
    EXPECT_EQ(rows.why, "all ranks see all files");
    const Plan columns = plan_of_square(true);
    EXPECT_EQ(columns.strategy, Strategy::collective);
    EXPECT_TRUE(columns.is_lockstep);
    EXPECT_EQ(columns.why.rfind("each byte is read once; owners would read ", 0), 0U)
        << columns.why;
    EXPECT_EQ(plan_of_square(true, Strategy::direct).strategy, Strategy::direct);
}

TEST(Strategy, of_a_small_transposed_tensor_or_one_rank_is_direct) {
    Target small = target("x", 1024 * 1024, {0});
    small.operands.own()[0].copy = copy_of({{1024, 1, 1024}, {1024, 1024, 1}});
    const Visibility everywhere = Visibility::everywhere(2, kFiles.size());
    EXPECT_EQ(plan_of({small}, everywhere, Strategy::automatic).strategy, Strategy::direct);
    EXPECT_EQ(plan_of({small}, Visibility::everywhere(1, kFiles.size()), Strategy::automatic).why,
              "one rank");
}

TEST(Traffic, of_direct_owners_is_what_they_write) {
    // 8 MiB out of two files by two ranks: each owns one tensor and file, half of it from each
    // file.
    const Index n = 2 * 1024 * 1024;
    const Traffic traffic = traffic_of(plan_of({target("x", n, {0, 1}), target("y", n, {0, 1})},
                                               Visibility::everywhere(2, 2), Strategy::direct));
    ASSERT_EQ(traffic.ranks.size(), 2U);
    for (const RankTraffic& rank : traffic.ranks) {
        EXPECT_EQ(rank.bytes_written, 4 * kMiB);
        EXPECT_EQ(rank.bytes_read, 4 * kMiB);
        EXPECT_EQ(rank.bytes_read_over, 0U);
        EXPECT_EQ(rank.reads, 4);
        EXPECT_EQ(rank.files_read, 2);
        EXPECT_EQ(rank.files_written, 1);
        EXPECT_EQ(rank.bytes_sent + rank.bytes_received, 0U);
        EXPECT_EQ(rank.messages_sent, 0);
        EXPECT_EQ(rank.rounds, 4);
    }
    for (const FileTraffic& input : traffic.inputs) {
        EXPECT_EQ(input.ranks, 2);
        EXPECT_EQ(input.bytes, 4 * kMiB);
    }
    for (const FileTraffic& output : traffic.outputs) {
        EXPECT_EQ(output.ranks, 1);
        EXPECT_EQ(output.bytes, 4 * kMiB);
    }
}

TEST(Traffic, of_collective_readers_sends_what_others_own) {
    // Rank 0 reads file a, rank 1 file b; each owns a tensor that is made of both.
    const Index n = 2 * 1024 * 1024;
    Target x = target("x", n, {0, 1});
    Target y = target("y", n, {0, 1});
    for (Operand& operand : y.operands.own()) {
        operand.base = 2 * kMiB;
    }
    const Traffic traffic =
        traffic_of(plan_of({x, y}, Visibility::everywhere(2, 2), Strategy::collective));
    for (const RankTraffic& rank : traffic.ranks) {
        EXPECT_EQ(rank.bytes_read, 4 * kMiB);
        EXPECT_EQ(rank.files_read, 1);
        EXPECT_EQ(rank.bytes_sent, 2 * kMiB);
        EXPECT_EQ(rank.bytes_received, 2 * kMiB);
        EXPECT_EQ(rank.messages_sent, 2);
        EXPECT_EQ(rank.messages_received, 2);
    }
    EXPECT_EQ(traffic.inputs[0].ranks, 1);
}

TEST(Traffic, of_files_that_others_hold_is_sent_under_direct_too) {
    const Index n = 2 * 1024 * 1024;
    const Visibility apart{{0, 1}, {{true, false}, {false, true}}};
    const Traffic traffic =
        traffic_of(plan_of({target("x", n, {0}), target("y", n, {0})}, apart, Strategy::direct));
    EXPECT_EQ(traffic.ranks[0].bytes_read, 8 * kMiB);
    EXPECT_EQ(traffic.ranks[0].bytes_sent, 4 * kMiB);
    EXPECT_EQ(traffic.ranks[1].bytes_received, 4 * kMiB);
    EXPECT_EQ(traffic.ranks[1].bytes_read, 0U);
    EXPECT_EQ(traffic.inputs[1].ranks, 0);
}

TEST(Traffic, counts_replicas_as_they_are_compared) {
    const Index n = 2 * 1024 * 1024;
    Target x = target("x", n, {0});
    x.replicas = target("x", n, {1}).operands;
    const auto read = [&](Replicas replicas) {
        return traffic_of(plan_of({x}, Visibility::everywhere(1, 2), Strategy::direct, replicas))
            .ranks[0]
            .bytes_read;
    };
    EXPECT_EQ(read(Replicas::verify), 8 * kMiB);
    EXPECT_EQ(read(Replicas::trust), 4 * kMiB);
}

TEST(Traffic, of_512_ranks_is_balanced) {
    std::vector<Target> targets;
    for (int i = 10; i < 60; ++i) {
        targets.push_back(target("t" + std::to_string(i), Index{1} << 29, {0, 1}));
    }
    for (const Strategy strategy : {Strategy::direct, Strategy::collective}) {
        const Traffic traffic =
            traffic_of(plan_of(targets, Visibility::everywhere(512, 2), strategy));
        const Spread written = spread_of(traffic.ranks, &RankTraffic::bytes_written);
        EXPECT_EQ(written.total, 50.0 * (Bytes{1} << 30U));
        EXPECT_LE(written.imbalance(), 1.05);
        EXPECT_GT(written.least, 0.9 * written.mean);
        EXPECT_EQ(spread_of(traffic.ranks, &RankTraffic::bytes_read).total, written.total);
        EXPECT_EQ(spread_of(traffic.ranks, &RankTraffic::bytes_sent).total,
                  spread_of(traffic.ranks, &RankTraffic::bytes_received).total);
    }
}

}  // namespace
}  // namespace shardweld::plan
