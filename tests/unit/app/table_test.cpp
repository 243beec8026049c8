#include "app/messages/table.hpp"

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

TEST(Table, aligns_columns_and_leaves_no_blanks_at_line_ends) {
    EXPECT_EQ(table({Align::left, Align::right, Align::left},
                    {{"name", "n", "why"}, {"a", "100", ""}, {"longer", "7"}}),
              "name      n  why\na       100\nlonger    7\n");
    EXPECT_EQ(table({Align::left}, {}), "");
}

}  // namespace
}  // namespace shardweld::app
