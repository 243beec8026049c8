#include <gtest/gtest.h>

#include "app/settings/options.hpp"

namespace shardweld::app {
namespace {

plan::Binding binding_of(const std::vector<std::string>& names) {
    plan::Binding binding;
    for (const std::string& name : names) {
        plan::Target& target = binding.targets.emplace_back();
        target.name = name;
        target.shape = {0};
    }
    return binding;
}

std::vector<std::string> names_kept(const Selection& selection) {
    plan::Binding binding = binding_of({"model.a", "model.b", "head"});
    select(binding, selection);
    std::vector<std::string> names;
    for (const plan::Target& target : binding.targets) {
        names.push_back(target.name);
    }
    return names;
}

TEST(Select, searches_for_expressions_in_names) {
    using TensorNames = std::vector<std::string>;
    EXPECT_EQ(names_kept({"^model", std::nullopt}), (TensorNames{"model.a", "model.b"}));
    EXPECT_EQ(names_kept({std::nullopt, "a$"}), (TensorNames{"model.b", "head"}));
    EXPECT_EQ(names_kept({"model|head", "(a|b)$"}), (TensorNames{"head"}));
}

TEST(Select, ends_soon_whatever_is_asked_of_whatever_name) {
    const std::string name(200'000, 'a');
    plan::Binding binding = binding_of({name, name + "!"});
    select(binding, {"(.+)+!", "(a|aa)*b"});
    EXPECT_EQ(binding.targets.size(), 1U);
}

}  // namespace
}  // namespace shardweld::app
