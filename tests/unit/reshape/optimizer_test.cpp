#include "reshape/optimizer.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld::reshape {
namespace {

using outputs::PlainKind;
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
    ASSERT_EQ(both.kind, PlainKind::numbered);
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
            EXPECT_EQ(find(group, "step")->kind, PlainKind::integer);
            EXPECT_EQ(find(group, "step")->integer, 7);
            EXPECT_EQ(find(group, "bias_correction")->kind, PlainKind::boolean);
            EXPECT_EQ(find(group, "bias_correction")->integer, 1);
        }
    }
}

// Two groups of torch's, the one that does not decay first.
OptimizerToWrite in_two_groups() {
    OptimizerToWrite optimizer;
    const auto group = [](const char* decay, const char* lr, std::vector<std::string> names) {
        return ParameterGroup{{{"lr", lr}, {"weight_decay", decay}}, std::move(names)};
    };
    optimizer.groups = {group("0.0", "0.1", {"norm.weight"}),
                        group("0.05", "0.1", {"lm_head.weight", "q.weight"})};
    optimizer.parameters = {{"lm_head.weight", 2}, {"norm.weight", 1}, {"q.weight", 2}};
    return optimizer;
}

TEST(MegatronOptimizer, GroupsHaveTheSettingsOfTheirMembers) {
    const PlainValue optimizer = megatron_optimizer(in_two_groups(), false);
    EXPECT_EQ(find(groups_of(optimizer)[0], "weight_decay")->real, 0.05);
    EXPECT_EQ(find(groups_of(optimizer)[1], "weight_decay")->real, 0.0);
    EXPECT_EQ(find(megatron_scheduler(in_two_groups()), "end_wd")->real, 0.05);
    EXPECT_EQ(lost_in_megatron(in_two_groups()), "");
    OptimizerToWrite one = in_two_groups();
    one.groups = {{one.groups[1].settings, {"lm_head.weight", "norm.weight", "q.weight"}}};
    EXPECT_NE(lost_in_megatron(one).find("norm.weight"), std::string::npos);
    OptimizerToWrite apart = in_two_groups();
    apart.groups.push_back({{{"lr", "0.2"}, {"weight_decay", "0.05"}}, {"q.weight"}});
    apart.groups[1].parameters.pop_back();
    EXPECT_THROW(megatron_optimizer(apart, false), Error);
}

OptimizerToWrite of_megatron() {
    OptimizerToWrite optimizer;
    const auto group = [](const char* mult, const char* decay, const char* lr, bool is_decoupled) {
        return ParameterGroup{{{"wd_mult", mult},
                               {"weight_decay", decay},
                               {"lr", lr},
                               {"max_lr", lr},
                               {"is_decoupled_lr", is_decoupled ? "true" : "false"}},
                              {}};
    };
    optimizer.groups = {group("1", "0.1", "0.01", false), group("0", "0.0", "0.01", false),
                        group("1", "0.1", "0.5", true)};
    return optimizer;
}

TEST(TorchGroups, AreThoseOfMegatronsRuleHoweverItsNumbersAreSpelled) {
    const std::vector<Parameter> parameters = {
        {"lm_head.weight", 2}, {"norm.weight", 1}, {"q.weight", 2}, {"q.bias", 1}};
    const auto groups = torch_groups(of_megatron(), parameters);
    ASSERT_EQ(groups.size(), 3U);
    EXPECT_EQ(groups[0].parameters, std::vector<std::string>{"q.weight"});
    EXPECT_EQ(groups[1].parameters, (std::vector<std::string>{"norm.weight", "q.bias"}));
    EXPECT_EQ(groups[2].parameters, std::vector<std::string>{"lm_head.weight"});
    EXPECT_EQ(groups[2].settings, (Settings{{"lr", "0.5"}, {"weight_decay", "0.1"}}));
    const std::string lost = lost_in_one_group(of_megatron(), parameters);
    EXPECT_NE(lost.find("norm.weight"), std::string::npos);
    EXPECT_NE(lost.find("lm_head.weight"), std::string::npos);
    // Another group of the same kind, and nothing tells whose it is.
    OptimizerToWrite twice = of_megatron();
    twice.groups.push_back(twice.groups[0]);
    EXPECT_EQ(torch_groups(twice, parameters).size(), 3U);
    twice.groups.back().settings["lr"] = "0.7";
    EXPECT_THROW(torch_groups(twice, parameters), Error);
}

TEST(TorchGroups, RenamedParametersAreInTheGroupOfTheirKind) {
    const auto groups =
        torch_groups(in_two_groups(), {{"text.norm.weight", 1}, {"text.q.weight", 2}});
    ASSERT_EQ(groups.size(), 2U);
    EXPECT_EQ(groups[0].parameters, std::vector<std::string>{"text.norm.weight"});
    EXPECT_EQ(groups[1].parameters, std::vector<std::string>{"text.q.weight"});
    OptimizerToWrite unnamed = in_two_groups();
    for (ParameterGroup& group : unnamed.groups) {
        group.parameters.clear();
    }
    EXPECT_THROW(torch_groups(unnamed, unnamed.parameters), Error);
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
