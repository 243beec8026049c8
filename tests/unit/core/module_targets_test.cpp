#include <gtest/gtest.h>

#include "core/config_fields.hpp"
#include "shardweld/error.hpp"

namespace shardweld {
namespace {

TEST(GroupOf, prefers_names_to_expressions_and_these_to_classes) {
    const std::vector<std::vector<std::string>> groups = {
        {"Linear"}, {"re:.*self_attn.*", "re:.*down_proj$"}, {"model.layers.1.mlp.down_proj"}};
    EXPECT_EQ(group_of("model.layers.0.mlp.up_proj", groups), 0U);
    EXPECT_EQ(group_of("model.layers.0.self_attn.q_proj", groups), 1U);
    EXPECT_EQ(group_of("model.layers.0.mlp.down_proj", groups), 1U);
    EXPECT_EQ(group_of("model.layers.1.mlp.down_proj", groups), 2U);
}

TEST(GroupOf, guesses_nothing) {
    EXPECT_EQ(group_of("a.q_proj", {{"re:.*mlp.*"}, {"re:.*k_proj"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {{"re:.*q_proj"}, {"re:a.*"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {{"Linear"}, {"LinearBase"}, {"re:.*q_proj"}}), 2U);
    // From the beginning, as Python's re.match.
    EXPECT_EQ(group_of("a.q_proj", {{"re:q_proj"}}), std::nullopt);
    EXPECT_EQ(group_of("a.q_proj", {}), std::nullopt);
    EXPECT_THROW(group_of("a", {{"re:(?!x)"}}), Error);
}

}  // namespace
}  // namespace shardweld
