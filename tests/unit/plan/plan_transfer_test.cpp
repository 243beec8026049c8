#include "plan/schedule/plan_transfer.hpp"

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/small_targets.hpp"

namespace shardweld::plan {
namespace {

Plan plan_of(Strategy strategy) {
    std::vector<Target> targets = test::small_targets();
    targets[0].fold.emplace().left.emplace().offset = 7;
    targets[1].replicas = targets[1].operands;
    targets[2].mix = Mix{MixKind::deltas, {Term{DType::f32, 0, 0.5F}}};
    JobPlan choice;
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
        std::string text = target.name.text() + " " + std::to_string(slice.begin) + " " +
                           std::to_string(slice.end) + " of " +
                           std::to_string(target.replicas.size()) + ":";
        for (const Operand& operand : target.operands) {
            text += " " + std::to_string(operand.base) + " " + layout::to_text(operand.copy);
        }
        work.push_back(text);
    }
    return work;
}

std::vector<std::byte> bytes_of(const Plan& plan) {
    ByteWriter out;
    put_plan(plan, out);
    return out.take();
}

Plan plan_from(std::span<const std::byte> bytes) {
    ByteReader in(bytes);
    return get_plan(in);
}

TEST(HandedPlan, is_the_same_plan_for_every_rank) {
    for (const Strategy strategy : {Strategy::direct, Strategy::collective}) {
        const Plan plan = plan_of(strategy);
        const Plan handed = plan_from(bytes_of(plan));
        for (int rank = 0; rank < 3; ++rank) {
            EXPECT_EQ(work_of(handed, rank), work_of(plan, rank));
        }
        EXPECT_EQ(n_sources(handed), n_sources(plan));
        EXPECT_EQ(handed.hash(), plan.hash());
        EXPECT_EQ(handed.placement.total_bytes(), plan.placement.total_bytes());
        EXPECT_EQ(handed.targets[0].fold->left->offset, 7U);
        EXPECT_EQ(handed.targets[2].mix->terms.front().weight, 0.5F);
        EXPECT_EQ(handed.limits.total(), plan.limits.total());
    }
}

TEST(HandedPlan, that_is_cut_short_is_refused) {
    auto bytes = bytes_of(plan_of(Strategy::direct));
    for (std::size_t lost = 1; lost < bytes.size(); lost += bytes.size() / 50) {
        const auto kept = std::span(bytes).first(bytes.size() - lost);
        EXPECT_TRUE(test::error_text([&] { plan_from(kept); }).starts_with("internal")) << lost;
    }
}

}  // namespace
}  // namespace shardweld::plan
