#include "core/names/natural_order.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "core/text.hpp"

namespace shardweld {
namespace {

using Names = std::vector<std::string_view>;

void expect_natural(Names names) {
    Names expected = names;
    std::sort(expected.begin(), expected.end(), natural_less);
    put_in_order(names, natural_order(names));
    EXPECT_EQ(names, expected);
}

TEST(NaturalOrder, is_that_of_whole_names) {
    expect_natural({});
    expect_natural({"b.10", "b.9", "a"});
    expect_natural({"rank_10:model.b", "rank_9:model.b", "rank_10:model.a",
                    "rank_9:model.layers.10", "rank_9:model.layers.2", "rank:x"});
}

TEST(NaturalOrder, mixes_what_stands_behind_fronts_that_differ_in_leading_zeros) {
    expect_natural({"f1:b", "f01:c", "f1:a", "f01:a", "f001:b", "f2:a"});
}

TEST(NaturalOrder, knows_names_without_a_front_among_others) {
    expect_natural({"b:1", "b", "a:2", "ab", "b1:0", "b0"});
}

TEST(NaturalOrder, has_equal_names_side_by_side) {
    expect_natural({"f:b", "f:a", "f:b"});
}

TEST(PutInOrder, follows_every_cycle) {
    std::vector<std::string> things = {"a", "b", "c", "d", "e"};
    put_in_order(things, {3, 0, 2, 1, 4});
    EXPECT_EQ(things, (std::vector<std::string>{"d", "a", "c", "b", "e"}));
}

}  // namespace
}  // namespace shardweld
