#include <gtest/gtest.h>

#include "app/cli/nearest.hpp"
#include "app/messages/table.hpp"

namespace shardweld::app {
namespace {

TEST(Table, aligns_columns_and_leaves_no_blanks_at_line_ends) {
    EXPECT_EQ(table({Align::left, Align::right, Align::left},
                    {{"name", "n", "why"}, {"a", "100", ""}, {"longer", "7"}}),
              "name      n  why\na       100\nlonger    7\n");
    EXPECT_EQ(table({Align::left}, {}), "");
}

TEST(Suggestion, names_the_nearest_word_only_when_it_is_near) {
    EXPECT_EQ(suggestion("merg", {"merge", "plan"}), "did you mean merge?");
    EXPECT_EQ(suggestion("--target_dri", {"--local_dir", "--target_dir"}),
              "did you mean --target_dir?");
    EXPECT_EQ(suggestion("banana", {"merge", "plan"}), "");
    EXPECT_EQ(suggestion("", {"merge"}), "");
}

}  // namespace
}  // namespace shardweld::app
