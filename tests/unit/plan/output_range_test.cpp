#include "plan/output_range.hpp"

#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {

void PrintTo(const OutputRange& range, std::ostream* out) {
    *out << "[" << range.begin << ", " << range.end << ")";
}

namespace {

using Ranges = std::vector<OutputRange>;

TEST(United, joins_what_overlaps_and_touches_and_forgets_what_is_empty) {
    EXPECT_EQ(united({}), Ranges{});
    EXPECT_EQ(united({{5, 5}, {9, 3}}), Ranges{});
    EXPECT_EQ(united({{7, 9}, {0, 2}, {2, 4}, {8, 12}, {20, 21}}),
              (Ranges{{0, 4}, {7, 12}, {20, 21}}));
    EXPECT_EQ(united({{0, 100}, {10, 20}, {30, 40}}), (Ranges{{0, 100}}));
}

TEST(Without, leaves_what_no_range_holds) {
    const Ranges some{{0, 4}, {7, 12}, {20, 21}};
    EXPECT_EQ(without({0, 30}, some), (Ranges{{4, 7}, {12, 20}, {21, 30}}));
    EXPECT_EQ(without({2, 8}, some), (Ranges{{4, 7}}));
    EXPECT_EQ(without({4, 7}, some), (Ranges{{4, 7}}));
    EXPECT_EQ(without({8, 12}, some), Ranges{});
    EXPECT_EQ(without({25, 30}, some), (Ranges{{25, 30}}));
    EXPECT_EQ(without({3, 3}, some), Ranges{});
    EXPECT_EQ(without({0, 5}, {}), (Ranges{{0, 5}}));
}

TEST(PositionOutside, counts_only_what_no_range_holds) {
    const Ranges some{{0, 4}, {7, 12}};
    EXPECT_EQ(position_outside(0, some), 4U);
    EXPECT_EQ(position_outside(2, some), 6U);
    EXPECT_EQ(position_outside(3, some), 12U);
    EXPECT_EQ(position_outside(10, some), 19U);
    EXPECT_EQ(position_outside(5, {}), 5U);
}

TEST(OutputRanges, agree_with_sets_of_bytes) {
    std::mt19937 random(7);  // NOLINT(cert-msc51-cpp): the same cases every time
    for (int round = 0; round < 500; ++round) {
        std::vector<bool> held(64, false);
        Ranges ranges;
        for (int i = 0; i < 6; ++i) {
            const Bytes begin = random() % 64;
            const Bytes end = std::min<Bytes>(64, begin + random() % 16);
            ranges.push_back({begin, end});
            std::fill(held.begin() + static_cast<long>(begin),
                      held.begin() + static_cast<long>(end), true);
        }
        const Ranges whole = united(ranges);
        EXPECT_EQ(total_of(whole), static_cast<Bytes>(std::count(held.begin(), held.end(), true)));
        const Bytes lo = random() % 32;
        const Bytes hi = lo + random() % 32;
        std::vector<bool> left(64, false);
        for (const OutputRange& range : without({lo, hi}, whole)) {
            EXPECT_LT(range.begin, range.end);
            std::fill(left.begin() + static_cast<long>(range.begin),
                      left.begin() + static_cast<long>(range.end), true);
        }
        for (Bytes at = 0; at < 64; ++at) {
            EXPECT_EQ(left[at], at >= lo && at < hi && !held[at]) << "round " << round << " " << at;
        }
    }
}

/// One tensor of so many bytes, read from one file by `n_ranks`.
Plan plan_of(Index n_bytes, int n_ranks) {
    JobPlan choice;
    choice.strategy = n_ranks > 1 ? Strategy::collective : Strategy::direct;
    return make_plan({test::flat_target("a", DType::u8, n_bytes)},
                     {{"file", static_cast<Bytes>(n_bytes)}}, Visibility::everywhere(n_ranks, 1),
                     choice);
}

/// What the rounds cover, by owner.
std::vector<Ranges> covered(Rounds& rounds, int n_ranks) {
    std::vector<Ranges> all(static_cast<std::size_t>(n_ranks));
    std::vector<OutputRange> ranges;
    while (rounds.next(ranges)) {
        for (std::size_t owner = 0; owner < all.size(); ++owner) {
            if (ranges[owner].begin < ranges[owner].end) {
                all[owner].push_back(ranges[owner]);
            }
        }
    }
    for (Ranges& of_owner : all) {
        of_owner = united(std::move(of_owner));
    }
    return all;
}

TEST(Rounds, leave_out_what_is_done) {
    constexpr Bytes kTotal = Bytes{40} << 20U;
    const Ranges done{{0, 1 << 20}, {5 << 20, 21 << 20}, {30 << 20, 40 << 20}};
    for (const int n_ranks : {1, 3, 7}) {
        const Plan plan = plan_of(kTotal, n_ranks);
        Rounds rounds(plan, done);
        const auto all = covered(rounds, n_ranks);
        for (std::size_t owner = 0; owner < all.size(); ++owner) {
            EXPECT_EQ(all[owner], without({plan.cuts[owner], plan.cuts[owner + 1]}, done))
                << owner << " of " << n_ranks;
        }
    }
}

TEST(Rounds, of_one_rank_leave_out_what_is_done) {
    Plan plan = plan_of(Index{40} << 20U, 3);
    plan.is_lockstep = false;
    const Ranges done{{15 << 20, 16 << 20}};
    Rounds rounds(plan, 1, done);
    const auto all = covered(rounds, 3);
    EXPECT_EQ(all[0], Ranges{});
    EXPECT_EQ(all[1], without({plan.cuts[1], plan.cuts[2]}, done));
    EXPECT_EQ(all[2], Ranges{});
}

TEST(ShareRest, gives_every_rank_as_much_of_what_is_left) {
    Plan plan = plan_of(Index{64} << 20U, 4);
    const Ranges done{{0, 30 << 20}, {40 << 20, 42 << 20}};
    share_rest(plan, done, kPageBytes);
    ASSERT_EQ(plan.cuts.size(), 5U);
    EXPECT_EQ(plan.cuts.front(), 0U);
    EXPECT_EQ(plan.cuts.back(), Bytes{64} << 20U);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto left =
            static_cast<double>(total_of(without({plan.cuts[rank], plan.cuts[rank + 1]}, done)));
        EXPECT_NEAR(left, 8 << 20, 0.05 * (8 << 20)) << rank;
    }
}

}  // namespace
}  // namespace shardweld::plan
