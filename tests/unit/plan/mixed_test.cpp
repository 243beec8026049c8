// Bindings of several checkpoints in one: what is mixed, what must be equal, and what is refused.
#include "plan/bind/mixed.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "shardweld/error.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

using test::flat_target;

MixInput input(const std::string& name, std::vector<Target> targets, float weight = 1) {
    MixInput input;
    input.name = name;
    input.weight = weight;
    for (const Target& target : targets) {
        input.binding.ledger.consumed += source_bytes(target);
    }
    input.binding.ledger.stored = input.binding.ledger.consumed;
    input.binding.targets = std::move(targets);
    return input;
}

std::string refusal(std::vector<MixInput> inputs, ErrorCode code) {
    try {
        (void)mixed(std::move(inputs), MixKind::sum);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), code);
        return error.what();
    }
    return "accepted";
}

TEST(Mixed, EachCheckpointIsATermOfEveryFloat) {
    Target first = flat_target("w", DType::f32, 6, 0);
    first.dtype = DType::bf16;
    Target second = flat_target("w", DType::bf16, 6, 1, 8);
    second.add = 1;
    second.replicas.push_back({2, 0, second.operands.front().copy});
    const Binding all =
        mixed({input("a", {first}, 0.25F), input("b", {second}, 0.75F)}, MixKind::sum);
    ASSERT_EQ(all.targets.size(), 1U);
    const Target& target = all.targets.front();
    EXPECT_EQ(target.dtype, DType::bf16);
    ASSERT_TRUE(target.mix);
    ASSERT_EQ(target.mix->terms.size(), 2U);
    EXPECT_EQ(target.mix->terms[0].weight, 0.25F);
    EXPECT_EQ(target.mix->terms[1].stored, DType::bf16);
    EXPECT_EQ(target.mix->terms[1].add, 1);
    ASSERT_EQ(target.operands.size(), 2U);
    EXPECT_EQ(target.operands[1].term, 1U);
    EXPECT_EQ(target.stored_as(target.operands[1]), DType::bf16);
    EXPECT_EQ(target.replicas.front().term, 1U);
    EXPECT_EQ(source_bytes(target), 6U * 4 + 6 * 2);
    all.ledger.require_closed();
}

TEST(Mixed, TheLeadGivesTypesWhereverItStands) {
    Target base = flat_target("w", DType::f32, 6, 0);
    Target tuned = flat_target("w", DType::bf16, 6, 1);
    const Binding all =
        mixed({input("base", {base}), input("tuned", {tuned}, 0.5F)}, MixKind::deltas, 1);
    EXPECT_EQ(all.targets.front().dtype, DType::bf16);
    EXPECT_EQ(all.targets.front().mix->terms[0].stored, DType::f32);
}

TEST(Mixed, IntegersAreComparedInFull) {
    const Binding all = mixed({input("a", {flat_target("i", DType::i64, 3, 0)}),
                               input("b", {flat_target("i", DType::i64, 3, 1)})},
                              MixKind::sum);
    EXPECT_FALSE(all.targets.front().mix);
    ASSERT_EQ(all.same.size(), 1U);
    EXPECT_EQ(all.same.front().count, 1U);
    EXPECT_EQ(all.targets.front().replicas.size(), 1U);
    EXPECT_EQ(all.ledger.replica, 24U);
    all.ledger.require_closed();
}

TEST(Mixed, OtherModelsAreRefusedWithTheNamesOfBothSides) {
    const Target w = flat_target("w", DType::f32, 6);
    EXPECT_EQ(refusal({input("a", {w, flat_target("x", DType::f32, 1)}), input("b", {w})},
                      ErrorCode::mismatch),
              "1 tensor of a is not in b: x");
    EXPECT_EQ(refusal({input("a", {w}), input("b", {w, flat_target("x", DType::f32, 1)})},
                      ErrorCode::mismatch),
              "1 tensor of b is not in a: x");
    EXPECT_EQ(refusal({input("a", {w}), input("b", {flat_target("w", DType::f32, 7)})},
                      ErrorCode::mismatch),
              "w is float32 [6] in a and float32 [7] in b");
    EXPECT_EQ(refusal({input("a", {w}), input("b", {flat_target("w", DType::i32, 6)})},
                      ErrorCode::mismatch),
              "w is float32 [6] in a and int32 [6] in b");
}

TEST(Mixed, ATiedHeadIsTheEmbedding) {
    const auto tied = [](MixInput input) {
        input.tied = {{"head", "embed"}};
        return input;
    };
    const Target embed = flat_target("embed", DType::f32, 6, 0);
    const Target head = flat_target("head", DType::f32, 6, 1, 24);
    for (const std::size_t lead : {0U, 1U}) {
        const Binding all =
            mixed({tied(input("a", {embed})), input("b", {embed, head})}, MixKind::sum, lead);
        ASSERT_EQ(all.targets.size(), 2U);
        const Target& mixed_head = all.targets.back();
        EXPECT_EQ(mixed_head.name, "head");
        ASSERT_EQ(mixed_head.operands.size(), 2U);
        EXPECT_EQ(mixed_head.operands[0].file, 0U);
        EXPECT_EQ(mixed_head.operands[1].file, 1U);
        ASSERT_EQ(all.warnings.size(), 1U);
        EXPECT_EQ(all.warnings.front().code, "untied");
        all.ledger.require_closed();
    }
    EXPECT_EQ(
        mixed({tied(input("a", {embed})), tied(input("b", {embed}))}, MixKind::sum).targets.size(),
        1U);
}

TEST(Mixed, QuantisedWeightsAndAdaptersAreRefused) {
    const Target w = flat_target("w", DType::f8_e4m3, 6);
    EXPECT_NE(refusal({input("a", {w}), input("b", {w})}, ErrorCode::unsupported)
                  .find("quantised weights cannot be added up"),
              std::string::npos);
    Target adapter = flat_target("w", DType::f32, 6);
    adapter.file = "lora_adapter/adapter_model.safetensors";
    EXPECT_NE(refusal({input("a", {adapter}), input("b", {adapter})}, ErrorCode::unsupported)
                  .find("a LoRA adapter in a"),
              std::string::npos);
}

/// Weights and their order are part of what determines the output.
TEST(Mixed, AnotherWeightIsAnotherPlan) {
    const auto hash_with = [](float weight, MixKind kind) {
        Binding all = mixed({input("a", {flat_target("w", DType::f32, 6, 0)}, 0.5F),
                             input("b", {flat_target("w", DType::f32, 6, 1)}, weight)},
                            kind);
        return make_plan(std::move(all.targets), {{"0", 24}, {"1", 24}},
                         Visibility::everywhere(1, 2), {})
            .hash();
    };
    EXPECT_EQ(hash_with(0.5F, MixKind::sum), hash_with(0.5F, MixKind::sum));
    EXPECT_NE(hash_with(0.5F, MixKind::sum), hash_with(0.25F, MixKind::sum));
    EXPECT_NE(hash_with(0.5F, MixKind::sum), hash_with(0.5F, MixKind::deltas));
}

}  // namespace
}  // namespace shardweld::plan
