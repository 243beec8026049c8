#include "core/inline_vector.hpp"

#include <utility>

#include <gtest/gtest.h>

namespace {

using shardweld::Error;
using Short = shardweld::InlineVector<int, 6, 2>;

TEST(InlineVector, keeps_its_elements_when_it_outgrows_the_object) {
    Short values{1, 2};
    values.push_back(3);
    values.push_back(values[0]);
    EXPECT_EQ(values, (Short{1, 2, 3, 1}));
    values.erase_at(1);
    values.pop_back();
    EXPECT_EQ(values, (Short{1, 3}));
    values.resize(6);
    EXPECT_EQ(values[1], 3);
    EXPECT_THROW(values.push_back(7), Error);
    EXPECT_THROW(values.resize(7), Error);
    EXPECT_EQ(values.size(), 6U);
}

TEST(InlineVector, copies_are_apart_and_moves_leave_nothing) {
    for (const Short& original : {Short{1, 2}, Short{1, 2, 3, 4}}) {
        Short copy = original;
        copy[0] = 9;
        EXPECT_EQ(original[0], 1);
        Short moved = std::move(copy);
        EXPECT_EQ(moved[0], 9);
        EXPECT_EQ(moved.size(), original.size());
        EXPECT_TRUE(copy.empty());  // NOLINT(bugprone-use-after-move): what a move leaves
        copy = moved;
        moved = original;
        EXPECT_EQ(copy[0], 9);
        EXPECT_EQ(moved, original);
    }
}

}  // namespace
