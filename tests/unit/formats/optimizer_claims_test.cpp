#include "formats/shared/optimizer_claims.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld::formats {
namespace {

using catalogue::ParameterGroup;
using catalogue::Settings;

ErrorCode code_of(const std::function<void()>& act) {
    try {
        act();
    } catch (const Error& error) {
        return error.code();
    }
    return ErrorCode::ok;
}

catalogue::State state_of(const char* name, const std::vector<std::string>& parameters) {
    catalogue::State state;
    state.name = name;
    for (const std::string& parameter : parameters) {
        state.tensors.emplace_back().name = parameter;
    }
    return state;
}

catalogue::Optimizer whole() {
    catalogue::Optimizer optimizer;
    optimizer.step = 3;
    optimizer.states = {state_of("exp_avg", {"a", "b"}), state_of("exp_avg_sq", {"a", "b"})};
    const Settings settings = {
        {"lr", "0.1"}, {"betas", "[0.9, 0.95]"}, {"eps", "1e-08"}, {"weight_decay", "0"}};
    optimizer.groups = {{settings, {"a"}}, {settings, {"b"}}};
    return optimizer;
}

TEST(OptimizerClaims, a_step_is_a_whole_number_from_0_on) {
    EXPECT_EQ(whole_number("3"), 3);
    EXPECT_EQ(whole_number("3.0"), 3);
    EXPECT_EQ(whole_number("0"), 0);
    EXPECT_EQ(whole_number("9007199254740992"), 9007199254740992.0);
    for (const char* const text : {"-1", "2.5", "9007199254740993", "1e300", "true", "null",
                                   "\"3\"", "\"nan\"", "[3]", "18446744073709551615", ""}) {
        EXPECT_FALSE(whole_number(text)) << text;
        EXPECT_EQ(code_of([&] { StepClaims().add(text, "here"); }), ErrorCode::corrupt) << text;
    }
}

TEST(OptimizerClaims, all_places_state_one_step) {
    StepClaims steps;
    EXPECT_FALSE(steps.step());
    steps.add("3", "one file");
    steps.add("3.0", "another");
    EXPECT_EQ(steps.step(), 3);
    EXPECT_FALSE(steps.add({{{{"lr", "0.1"}}, {}}, {{{"step", "null"}}, {}}}, "groups"));
    EXPECT_EQ(code_of([&] { steps.add({{{{"step", "4"}}, {}}}, "groups"); }), ErrorCode::mismatch);
}

TEST(OptimizerClaims, groups_are_compared_by_values) {
    GroupClaims groups;
    groups.add("", {{{{"wd_mult", "1"}}, {}}}, "one file");
    groups.add("", {{{{"wd_mult", "1.0"}}, {}}}, "another");
    groups.add("chained", {}, "another");
    for (const std::vector<ParameterGroup>& other :
         {std::vector<ParameterGroup>{{{{"wd_mult", "0.0"}}, {}}},
          {{{{"wd_mult", "1"}, {"lr", "2"}}, {}}},
          {{{{"wd_mult", "1"}}, {"a"}}},
          {}}) {
        EXPECT_EQ(code_of([&] { groups.add("", other, "a third"); }), ErrorCode::mismatch);
    }
    catalogue::Optimizer out;
    groups.finish(out);
    EXPECT_EQ(out.groups.size(), 1U);
}

TEST(OptimizerClaims, moments_are_nothing_without_step_and_groups) {
    EXPECT_EQ(code_of([] { require_claims(whole()); }), ErrorCode::ok);
    const auto code_with = [](const std::function<void(catalogue::Optimizer&)>& change) {
        catalogue::Optimizer changed = whole();
        change(changed);
        return code_of([&] { require_claims(changed); });
    };
    EXPECT_EQ(code_with([](auto& o) { o.step.reset(); }), ErrorCode::not_found);
    EXPECT_EQ(code_with([](auto& o) { o.groups.clear(); }), ErrorCode::not_found);
    EXPECT_EQ(code_with([](auto& o) { o.groups[1].settings.erase("eps"); }), ErrorCode::not_found);
    for (const auto& [name, text] : Settings{{"lr", "\"nan\""},
                                             {"lr", "null"},
                                             {"betas", "[0.9]"},
                                             {"betas", "[0.9, 1.5]"},
                                             {"weight_decay", "-1"},
                                             {"wd_mult", "\"1\""},
                                             {"is_expert_parallel", "1"}}) {
        EXPECT_EQ(code_with([&](auto& o) { o.groups[0].settings[name] = text; }),
                  ErrorCode::corrupt)
            << name << text;
    }
    // Masters alone need neither.
    EXPECT_EQ(code_with([](auto& o) {
                  o.states = {state_of("param", {"a"})};
                  o.step.reset();
                  o.groups.clear();
              }),
              ErrorCode::ok);
}

TEST(OptimizerClaims, each_parameter_is_in_one_group) {
    catalogue::Optimizer doubled = whole();
    doubled.groups[1].parameters = {"b", "a"};
    EXPECT_EQ(code_of([&] { require_claims(doubled); }), ErrorCode::corrupt);
    catalogue::Optimizer lacking = whole();
    lacking.groups[1].parameters.clear();
    EXPECT_EQ(code_of([&] { require_claims(lacking); }), ErrorCode::corrupt);
    lacking.groups[0].parameters.clear();  // no names: the framework's rule puts them there
    EXPECT_EQ(code_of([&] { require_claims(lacking); }), ErrorCode::ok);
    catalogue::Optimizer more = whole();
    more.groups[1].parameters.emplace_back("frozen");
    EXPECT_EQ(code_of([&] { require_claims(more); }), ErrorCode::ok);
}

}  // namespace
}  // namespace shardweld::formats
