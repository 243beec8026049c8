#include "../../../src/app/selection.hpp"

#include <gtest/gtest.h>

#include "shardweld/core/text.hpp"

#include "support/error_text.hpp"

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
    using Names = std::vector<std::string>;
    EXPECT_EQ(names_kept({"^model", std::nullopt}), (Names{"model.a", "model.b"}));
    EXPECT_EQ(names_kept({std::nullopt, "a$"}), (Names{"model.b", "head"}));
    EXPECT_EQ(names_kept({"model|head", "(a|b)$"}), (Names{"head"}));
}

TEST(Select, refuses_names_that_would_end_the_stack) {
    const std::string name(200'000, 'a');
    for (const Selection& selection : {Selection{".*b", std::nullopt}, {std::nullopt, ".*b"}}) {
        plan::Binding binding = binding_of({name});
        EXPECT_EQ(test::error_text([&] { select(binding, selection); }),
                  "unsupported: the tensor name " + printable(name) +
                      " has 200000 characters, too many for --include and --exclude: leave these "
                      "options out");
    }
}

}  // namespace
}  // namespace shardweld::app
