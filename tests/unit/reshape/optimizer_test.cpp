#include "reshape/optimizer.hpp"

#include <gtest/gtest.h>

namespace shardweld::reshape {
namespace {

using outputs::PlainValue;

const PlainValue* find(const PlainValue& dictionary, const std::string& key) {
    for (const PlainValue::Entry& entry : dictionary.entries) {
        if (entry.key == key) {
            return &entry.value;
        }
    }
    return nullptr;
}

OptimizerToWrite of_torch() {
    OptimizerToWrite optimizer;
    optimizer.step = 7;
    optimizer.groups.push_back(
        {{{"lr", "0.001"}, {"initial_lr", "0.01"}, {"weight_decay", "0.1"}, {"fused", "true"}},
         {}});
    return optimizer;
}

const std::vector<PlainValue>& groups_of(const PlainValue& optimizer) {
    return find(*find(optimizer, "optimizer"), "param_groups")->items;
}

TEST(MegatronOptimizer, GroupsOfTorchAreOneThatDecaysAndOneThatDoesNot) {
    const PlainValue optimizer = megatron_optimizer(of_torch(), false);
    const auto& groups = groups_of(optimizer);
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(find(groups[0], "weight_decay")->real, 0.1);
    EXPECT_EQ(find(groups[1], "weight_decay")->real, 0.0);
    EXPECT_EQ(find(groups[1], "wd_mult")->real, 0.0);
    EXPECT_EQ(find(groups[0], "lr")->real, 0.001);
    EXPECT_EQ(find(groups[0], "max_lr")->real, 0.01);
}

TEST(MegatronOptimizer, ExpertsHaveOneOfTheirOwn) {
    const PlainValue both = megatron_optimizer(of_torch(), true);
    ASSERT_EQ(both.kind, PlainValue::Kind::numbered);
    ASSERT_EQ(both.items.size(), 2U);
    EXPECT_EQ(groups_of(both.items[1]).size(), 1U);
    EXPECT_EQ(find(groups_of(both.items[1])[0], "is_expert_parallel")->integer, 1);
}

// Transformer Engine's Adam asks for them; Megatron's groups may come from a run without it.
TEST(MegatronOptimizer, EveryGroupHasItsStepAsAnIntegerAndCorrectsBias) {
    OptimizerToWrite of_megatron = of_torch();
    of_megatron.groups = {{{{"wd_mult", "1.0"}, {"step", "7.0"}}, {}},
                          {Settings{{"wd_mult", "0.0"}}, {}}};
    for (const OptimizerToWrite& read : {of_torch(), of_megatron}) {
        const PlainValue optimizer = megatron_optimizer(read, false);
        for (const PlainValue& group : groups_of(optimizer)) {
            EXPECT_EQ(find(group, "step")->kind, PlainValue::Kind::integer);
            EXPECT_EQ(find(group, "step")->integer, 7);
            EXPECT_EQ(find(group, "bias_correction")->kind, PlainValue::Kind::boolean);
            EXPECT_EQ(find(group, "bias_correction")->integer, 1);
        }
    }
}

TEST(MegatronScheduler, KeepsMegatronsAndElseKeepsTheRate) {
    OptimizerToWrite optimizer = of_torch();
    const PlainValue constant = megatron_scheduler(optimizer);
    EXPECT_EQ(find(constant, "max_lr")->real, 0.01);
    EXPECT_EQ(find(constant, "end_wd")->real, 0.1);
    EXPECT_EQ(find(constant, "lr_decay_style")->text, "constant");
    // What Megatron's OptimizerParamScheduler.load_state_dict reads without asking.
    for (const char* const key :
         {"max_lr", "min_lr", "lr_warmup_steps", "lr_decay_steps", "lr_decay_style", "num_steps",
          "start_wd", "end_wd", "wd_incr_steps", "wd_incr_style"}) {
        EXPECT_NE(find(constant, key), nullptr) << key;
    }
    optimizer.scheduler = {{"num_steps", "24"}, {"max_lr", "0.5"}};
    const PlainValue kept = megatron_scheduler(optimizer);
    EXPECT_EQ(find(kept, "num_steps")->integer, 24);
    EXPECT_EQ(find(kept, "max_lr")->real, 0.5);
    EXPECT_EQ(find(kept, "lr_decay_style"), nullptr);
}

}  // namespace
}  // namespace shardweld::reshape
