#include "core/names/natural_order.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/text.hpp"

namespace shardweld {
namespace {

using Names = std::vector<std::string>;

/// Whether names have a front up to their first ':' or none.
void expect_natural(const Names& names) {
    Names expected = names;
    std::ranges::sort(expected, natural_less);
    for (const bool is_divided : {false, true}) {
        const auto named = [&](const std::string& name) {
            const std::size_t end = is_divided ? name.find(':') + 1 : 0;
            return SharedName(name.substr(0, end), name.substr(end));
        };
        std::vector<SharedName> ordered = collect_list(names, named);
        put_in_order(ordered, natural_order(ordered));
        EXPECT_EQ(collect_list(ordered, &SharedName::text), expected);
    }
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

TEST(NaturalOrder, goes_by_the_text_where_a_front_may_begin_another) {
    const std::vector<SharedName> names{{"a.", "c["}, {"a.b.", "a["}, {"a.", "b/"}};
    EXPECT_EQ(natural_order(names), (std::vector<std::size_t>{1, 2, 0}));
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
