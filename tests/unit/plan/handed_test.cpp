#include "plan/schedule/handed.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/small_targets.hpp"

namespace shardweld::plan {
namespace {

Plan plan_of(Strategy strategy) {
    std::vector<Target> targets = test::small_targets();
    targets[0].fold.emplace().left.emplace().offset = 7;
    targets[1].replicas = targets[1].operands;
    targets[2].mix = Mix{Mix::Kind::deltas, {Term{DType::f32, 0, 0.5F}}};
    PlanChoice choice;
    choice.strategy = strategy;
    choice.replicas = Replicas::verify;
    return make_plan(std::move(targets), {{"file", 1 << 30}}, Visibility::everywhere(3, 1), choice);
}

std::size_t n_sources(const Plan& plan) {
    std::size_t n = 0;
    for (const Target& target : plan.targets) {
        n += target.operands.size() + target.replicas.size();
    }
    return n;
}

/// What a rank has to make, by the names of its slices.
std::vector<std::string> work_of(const Plan& plan, int rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::vector<std::string> work;
    for (const Slice& slice : slices_of(plan, {plan.cuts[at], plan.cuts[at + 1]})) {
        const Target& target = plan.target_of(slice.tensor);
        std::string text = target.name + " " + std::to_string(slice.begin) + " " +
                           std::to_string(slice.end) + " of " +
                           std::to_string(target.replicas.size()) + ":";
        for (const Operand& operand : target.operands) {
            text += " " + std::to_string(operand.base) + " " + layout::to_text(operand.copy);
        }
        work.push_back(text);
    }
    return work;
}

TEST(HandedPlan, is_the_same_plan_for_every_rank) {
    for (const Strategy strategy : {Strategy::direct, Strategy::collective}) {
        const Plan plan = plan_of(strategy);
        const auto bytes = as_bytes(plan);
        for (int rank = 0; rank < 3; ++rank) {
            const Plan handed = plan_from(bytes, rank, false);
            EXPECT_EQ(work_of(handed, rank), work_of(plan, rank));
            EXPECT_EQ(handed.hash(), plan.hash());
            EXPECT_EQ(handed.placement.total_bytes(), plan.placement.total_bytes());
            EXPECT_EQ(handed.targets[0].fold->left->offset, 7U);
            EXPECT_EQ(handed.targets[2].mix->terms.front().weight, 0.5F);
            EXPECT_EQ(handed.limits.total(), plan.limits.total());
        }
    }
}

TEST(HandedPlan, has_what_its_rank_owns_where_ranks_read_for_themselves) {
    const Plan plan = plan_of(Strategy::direct);
    const auto bytes = as_bytes(plan);
    std::size_t least = n_sources(plan);
    for (int rank = 0; rank < 3; ++rank) {
        least = std::min(least, n_sources(plan_from(bytes, rank, false)));
        EXPECT_EQ(n_sources(plan_from(bytes, rank, true)), n_sources(plan));
    }
    EXPECT_LT(least, n_sources(plan));
    const Plan common = plan_of(Strategy::collective);
    EXPECT_EQ(n_sources(plan_from(as_bytes(common), 1, false)), n_sources(common));
}

TEST(HandedPlan, that_is_cut_short_is_refused) {
    auto bytes = as_bytes(plan_of(Strategy::direct));
    bytes.resize(bytes.size() - 1);
    EXPECT_TRUE(test::error_text([&] { plan_from(bytes, 0, true); }).starts_with("internal"))
        << bytes.size();
}

}  // namespace
}  // namespace shardweld::plan
