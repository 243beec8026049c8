#include "../../../src/plan/bind/cover.hpp"

#include <random>

#include <gtest/gtest.h>

namespace shardweld::plan {
namespace {

using layout::Axis;
using layout::Patch;

Patch box(std::initializer_list<std::pair<Index, Index>> ranges) {
    Patch patch;
    for (const auto& [lo, extent] : ranges) {
        patch.axes.push_back(Axis{lo, extent, 1});
    }
    return patch;
}

TEST(FindClash, agrees_with_comparing_all_pairs) {
    std::mt19937 random(7);
    for (int round = 0; round < 2000; ++round) {
        std::vector<Patch> patches;
        const auto n = 1 + random() % 6;
        for (unsigned i = 0; i < n; ++i) {
            const auto number = [&](unsigned limit) {
                return static_cast<Index>(random() % limit);
            };
            patches.push_back(
                box({{number(8), 1 + number(3)}, {number(8), 1 + number(3)}, {0, 2}}));
        }
        bool expected = false;
        for (std::size_t i = 0; i < patches.size(); ++i) {
            for (std::size_t j = 0; j < i; ++j) {
                layout::Box other;
                for (const Axis& axis : patches[j].axes) {
                    other.push_back({axis.lo, axis.extent});
                }
                expected = expected || layout::clip(patches[i], other).has_value();
            }
        }
        EXPECT_EQ(find_clash(patches).has_value(), expected) << "round " << round;
    }
}

TEST(FindClash, takes_two_scalars_for_the_same_element) {
    EXPECT_TRUE(find_clash({box({}), box({})}).has_value());
    EXPECT_FALSE(find_clash({box({})}).has_value());
}

}  // namespace
}  // namespace shardweld::plan
