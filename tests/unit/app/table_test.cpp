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

TEST(Fitted, goes_on_below_the_second_cell_or_in_a_line_of_its_own) {
    EXPECT_EQ(fitted("from  a bb cc\nfrom  /a/path99", 12),
              "from  a bb\n      cc\nfrom\n  /a/path99");
    EXPECT_EQ(fitted("训练 训练 y", 10), "训练 训练\n  y");
}

}  // namespace
}  // namespace shardweld::app
