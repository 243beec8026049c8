// Rounds hold each byte of the output space once, for each term, and never more than buffers do.
#include "plan/schedule/rounds.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

/// A few large tensors and many small ones of 2 and 4 bytes, read from three files.
std::vector<Target> mixed_targets() {
    std::vector<Target> targets;
    for (Index i = 0; i < 40; ++i) {
        const Index n = i % 10 == 0 ? 900'001 : 17 + i;
        targets.push_back(test::flat_target("t" + std::to_string(i),
                                            i % 3 == 0 ? DType::f32 : DType::bf16, n,
                                            static_cast<std::uint32_t>(i % 3)));
    }
    return targets;
}

Plan plan_of(int n_ranks, Strategy strategy, Bytes memory = 4 * kMiB) {
    JobPlan choice;
    choice.strategy = strategy;
    choice.memory_limit = memory;
    choice.max_shard_size = 3'000'000;
    return make_plan(mixed_targets(), {{"a", 1 << 30}, {"b", 1 << 30}, {"c", 1 << 30}},
                     Visibility::everywhere(n_ranks, 3), choice);
}

/// All rounds' parts of the output space, in the order of owners; a range may not be empty in all.
std::vector<OutputRange> parts_of(const Plan& plan, Rounds rounds) {
    std::vector<OutputRange> parts;
    std::vector<OutputRange> ranges;
    while (rounds.next(ranges)) {
        bool any = false;
        for (std::size_t owner = 0; owner < ranges.size(); ++owner) {
            const OutputRange range = ranges[owner];
            if (range.begin < range.end) {
                EXPECT_GE(range.begin, plan.cuts[owner]);
                EXPECT_LE(range.end, plan.cuts[owner + 1]);
                EXPECT_LE(range.end - range.begin, plan.limits.round);
                const auto slices = slices_of(plan, range);
                EXPECT_EQ(plan.placement.slots[slices.front().tensor].file,
                          plan.placement.slots[slices.back().tensor].file);
                parts.push_back(range);
                any = true;
            }
        }
        EXPECT_TRUE(any);
    }
    return parts;
}

TEST(Rounds, hold_each_byte_once) {
    for (const Strategy strategy : {Strategy::direct, Strategy::collective}) {
        for (const int n_ranks : {1, 2, 3, 7}) {
            const Plan plan = plan_of(n_ranks, strategy);
            const std::vector<OutputRange> parts = parts_of(plan, Rounds(plan));
            EXPECT_GT(parts.size(), 2U);
            EXPECT_EQ(total_of(parts), plan.space.begins.back());
            EXPECT_EQ(united(parts), (std::vector<OutputRange>{{0, plan.space.begins.back()}}));
        }
    }
}

TEST(Rounds, of_one_rank_are_its_own) {
    const Plan plan = plan_of(3, Strategy::direct);
    for (int rank = 0; rank < 3; ++rank) {
        const auto at = static_cast<std::size_t>(rank);
        EXPECT_EQ(united(parts_of(plan, Rounds(plan, rank))),
                  (std::vector<OutputRange>{{plan.cuts[at], plan.cuts[at + 1]}}));
    }
}

TEST(Rounds, of_all_ranks_leave_out_what_is_done) {
    const Plan plan = plan_of(2, Strategy::collective);
    const Bytes end = plan.space.begins.back();
    const std::vector<OutputRange> done{{0, 8}, {4000, 2'000'000}, {end - 4, end}};
    const auto parts = parts_of(plan, Rounds(plan, done));
    EXPECT_EQ(united(parts), without({0, end}, done));
    EXPECT_EQ(total_of(parts), end - total_of(done));
    EXPECT_TRUE(parts_of(plan, Rounds(plan, std::vector<OutputRange>{{0, end}})).empty());
}

/// What a rank sends others in a round, at most.
Bytes most_sent(const Plan& plan, const std::vector<OutputRange>& ranges) {
    std::vector<Bytes> sent(ranges.size(), 0);
    for (std::size_t owner = 0; owner < ranges.size(); ++owner) {
        for (const Slice& slice : slices_of(plan, ranges[owner])) {
            const Target& target = plan.target_of(slice.tensor);
            const int reader =
                plan.reader_of(target.operands.front(), target, static_cast<int>(owner));
            if (static_cast<std::size_t>(reader) != owner) {
                sent[static_cast<std::size_t>(reader)] += plan.bytes_of(slice);
            }
        }
    }
    return *std::ranges::max_element(sent);
}

TEST(Rounds, send_and_assemble_no_more_than_buffers_hold) {
    for (const Bytes memory : {kLeastMemory, 2 * kMiB, 64 * kMiB}) {
        const Plan plan = plan_of(5, Strategy::collective, memory);
        ASSERT_TRUE(plan.is_lockstep);
        Rounds rounds(plan);
        std::vector<OutputRange> ranges;
        Bytes most = 0;
        while (rounds.next(ranges)) {
            most = std::max(most, most_sent(plan, ranges));
        }
        EXPECT_GT(most, 0U);
        EXPECT_LE(most, plan.limits.send);
        EXPECT_EQ(rounds.most().sent, most);
        EXPECT_LE(rounds.most().received, plan.limits.receive);
        EXPECT_LE(rounds.most().output, plan.limits.round);
    }
}

TEST(Rounds, come_once_for_each_term) {
    std::vector<Target> targets{test::flat_target("a", DType::f32, 700'000),
                                test::flat_target("b", DType::i64, 5)};
    Mix mix;
    for (std::uint32_t term = 0; term < 3; ++term) {
        mix.terms.push_back({DType::f32, 0, 1});
        if (term > 0) {
            targets[0].operands.push_back(targets[0].operands.front());
            targets[0].operands.own().back().term = term;
        }
    }
    targets[0].mix = std::move(mix);
    JobPlan choice;
    choice.memory_limit = 2 * kMiB;
    const Plan plan =
        make_plan(std::move(targets), {{"f", 1 << 30}}, Visibility::everywhere(1, 1), choice);
    ASSERT_EQ(plan.n_terms, 3U);
    EXPECT_EQ(plan.targets[1].operands.front().term, 2U);  // what is not mixed comes last
    Rounds rounds(plan, 0);
    std::vector<OutputRange> ranges;
    std::vector<OutputRange> last;
    Bytes total = 0;
    std::uint32_t term = 0;
    while (rounds.next(ranges)) {
        EXPECT_EQ(rounds.term(), term);
        if (term == 0) {
            last = ranges;
            total += total_of(ranges);
        }
        EXPECT_EQ(ranges, last);
        term = (term + 1) % 3;
    }
    EXPECT_EQ(term, 0U);
    EXPECT_EQ(total, plan.space.begins.back());
}

}  // namespace
}  // namespace shardweld::plan
