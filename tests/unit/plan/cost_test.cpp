#include "plan/schedule/cost.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"

namespace shardweld::plan {
namespace {

constexpr Bytes kGB = 1'000'000'000;

RankTraffic rank(Bytes read, Index reads, Bytes written) {
    RankTraffic made;
    made.bytes_read = read;
    made.reads = reads;
    made.bytes_written = written;
    return made;
}

/// 1 ms and 2 GB/s of reading, 10 us and 1 GB/s of messages, 5 GB/s of copies, 0.5 GB/s of writing.
const Rates kRates{1e-3, 2e9, 1e-5, 1e9, 5e9, 0.5e9};

double seconds_of(const Traffic& traffic, const Rates& rates, bool is_lockstep) {
    return timeline_of(traffic, {rates, {}}, is_lockstep).total_s;
}

TEST(Cost, of_ranks_that_run_freely_is_the_slowest_ranks_sum) {
    Traffic traffic;
    traffic.ranks = {rank(4 * kGB, 1000, 1 * kGB), rank(2 * kGB, 500, 2 * kGB)};
    // Rank 0: 1 + 2 s of reading, 2 s of writing. Rank 1: 0.5 + 1 and 4.
    EXPECT_DOUBLE_EQ(seconds_of(traffic, kRates, false), 5.5);
    // In lockstep each waits for the other's slower phase: 3 + 4.
    EXPECT_DOUBLE_EQ(seconds_of(traffic, kRates, true), 7);
}

TEST(Cost, of_an_exchange_counts_the_busier_direction_and_the_copies) {
    Traffic traffic;
    traffic.ranks.resize(2);
    traffic.ranks[0].bytes_sent = 3 * kGB;
    traffic.ranks[0].messages_sent = 100'000;
    traffic.ranks[1].bytes_received = 3 * kGB;
    traffic.ranks[1].messages_received = 100'000;
    traffic.ranks[1].bytes_copied = 5 * kGB;
    // 1 s of messages, 3 s of bytes, 1 s of copying.
    EXPECT_DOUBLE_EQ(seconds_of(traffic, kRates, true), 5);
}

TEST(Cost, of_nothing_known_is_nothing) {
    Traffic traffic;
    traffic.ranks = {rank(kGB, 7, kGB)};
    EXPECT_DOUBLE_EQ(seconds_of(traffic, {}, false), 0);
    EXPECT_DOUBLE_EQ(seconds_of({}, kRates, true), 0);
}

TEST(Cost, of_metadata_is_shared_by_ranks_and_what_they_have_in_flight) {
    const Machine machine{kRates, {}};
    EXPECT_DOUBLE_EQ(metadata_seconds({80'000, 1, 3}, machine, 1), 83);
    EXPECT_DOUBLE_EQ(metadata_seconds({80'000, 8, 3}, machine, 1), 13);
    EXPECT_DOUBLE_EQ(metadata_seconds({80'000, 2, 3}, machine, 16), 5.5);
    // The file system answers no more than so many a second.
    Shared slow;
    slow.system_reads_s = 10'000;
    EXPECT_DOUBLE_EQ(metadata_seconds({80'000, 8, 3}, {kRates, slow}, 16), 11);
}

TEST(Cost, of_shared_links_bounds_the_ranks) {
    Traffic traffic;
    traffic.ranks.assign(4, rank(4 * kGB, 1000, 2 * kGB));
    for (RankTraffic& one : traffic.ranks) {
        one.bytes_sent = one.bytes_received = 3 * kGB;
    }
    Machine machine;
    machine.shared.ranks_per_node = 2;
    machine.shared.node_read_bytes_s = 1e9;
    machine.shared.node_write_bytes_s = 4e9;
    machine.shared.node_exchange_bytes_s = 2e9;
    Timeline time = timeline_of(traffic, machine, true);
    EXPECT_DOUBLE_EQ(time.read_s, 8);
    EXPECT_DOUBLE_EQ(time.write_s, 1);
    // 6 GB leave a node's ranks, two thirds of it to the other node.
    EXPECT_DOUBLE_EQ(time.exchange_s, 2);
    EXPECT_DOUBLE_EQ(time.total_s, 11);
    machine.shared.system_read_bytes_s = 1e9;
    machine.shared.system_write_bytes_s = 4e9;
    time = timeline_of(traffic, machine, false);
    EXPECT_DOUBLE_EQ(time.read_s, 16);
    EXPECT_DOUBLE_EQ(time.write_s, 2);
    EXPECT_DOUBLE_EQ(time.total_s, 20);
    machine.shared.system_reads_s = 200;
    EXPECT_DOUBLE_EQ(timeline_of(traffic, machine, false).read_s, 20);
}

/// One bf16 target of 512 MiB: an eighth of each row in each of eight files of 64 MiB, rows of
/// `row` elements.
Plan by_columns(Index row, Strategy strategy, Visibility visibility) {
    const Index n_rows = (Index{256} << 20U) / row;
    Target target;
    target.name = "w";
    target.stored = target.dtype = DType::bf16;
    target.shape = {n_rows, row};
    std::vector<catalogue::File> files;
    for (std::uint32_t file = 0; file < 8; ++file) {
        layout::Copy copy;
        copy.dst_offset = static_cast<Index>(file) * (row / 8);
        copy.loops = {{n_rows, row / 8, row}, {row / 8, 1, 1}};
        target.operands.push_back({file, 0, copy});
        files.push_back({std::to_string(file), Bytes{64} << 20U});
    }
    JobPlan choice;
    choice.strategy = strategy;
    return make_plan({target}, files, std::move(visibility), choice);
}

TEST(Cost, names_what_takes_longest) {
    Traffic traffic;
    traffic.ranks = {rank(4 * kGB, 0, 0), rank(4 * kGB, 0, 0)};
    Machine machine{kRates, {}};  // a rank: 2 s
    EXPECT_EQ(bottleneck_of(traffic, machine, false), Bottleneck::ranks);
    machine.shared.ranks_per_node = 2;
    machine.shared.node_read_bytes_s = 2e9;  // both: 4 s
    EXPECT_EQ(bottleneck_of(traffic, machine, false), Bottleneck::nodes);
    machine.shared.system_read_bytes_s = 1e9;
    EXPECT_EQ(bottleneck_of(traffic, machine, false), Bottleneck::system);
}

TEST(Cost, prefers_direct_where_half_of_the_bytes_need_not_travel) {
    // Four ranks on two nodes, each of which holds half of the files.
    std::vector<std::vector<bool>> sees(2);
    for (int file = 0; file < 8; ++file) {
        sees[0].push_back(file < 4);
        sees[1].push_back(file >= 4);
    }
    const Visibility halves{{0, 0, 1, 1}, sees};
    const auto seconds = [&](Strategy strategy) {
        const Plan plan = by_columns(8192, strategy, halves);
        EXPECT_TRUE(plan.is_lockstep);
        return seconds_of(traffic_of(plan), kRates, plan.is_lockstep);
    };
    EXPECT_LT(seconds(Strategy::direct), seconds(Strategy::collective));
}

TEST(Cost, prefers_direct_for_whole_rows_and_collective_for_transposes_on_a_shared_system) {
    Machine machine{kRates, {}};
    machine.shared.system_read_bytes_s = 3e9;
    const auto seconds = [&](const Plan& plan) {
        return timeline_of(traffic_of(plan), machine, plan.is_lockstep).total_s;
    };
    const auto rows = [&](Strategy strategy) {
        return seconds(by_columns(8192, strategy, Visibility::everywhere(4, 8)));
    };
    EXPECT_LT(rows(Strategy::direct), rows(Strategy::collective));
    // Stored column by column: each of 16 owners reads everything to get its few rows of it, while
    // one reader for all reads it once.
    const auto transposed = [&](Strategy strategy) {
        Target target;
        target.name = "w";
        target.stored = target.dtype = DType::bf16;
        target.shape = {8192, 8192};
        layout::Copy copy;
        copy.loops = {{8192, 1, 8192}, {8192, 8192, 1}};
        target.operands.push_back({0, 0, copy});
        JobPlan choice;
        choice.strategy = strategy;
        return seconds(
            make_plan({target}, {{"a", Bytes{128} << 20U}}, Visibility::everywhere(16, 1), choice));
    };
    EXPECT_LT(transposed(Strategy::collective), transposed(Strategy::direct));
}

}  // namespace
}  // namespace shardweld::plan
