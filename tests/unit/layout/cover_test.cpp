#include "layout/cover.hpp"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace shardweld::layout {
namespace {

Patch box(std::initializer_list<std::pair<Index, Index>> ranges) {
    Patch patch;
    for (const auto& [lo, extent] : ranges) {
        patch.axes.push_back(Axis{lo, extent, 1});
    }
    return patch;
}

Cover cover_of(const Patch& whole, const std::vector<Patch>& parts) {
    std::vector<const Patch*> boxes;
    for (const Patch& part : parts) {
        boxes.push_back(&part);
    }
    return check_cover(whole, boxes);
}

// Parts of a box that begins anywhere, against counting its elements.
TEST(CheckCover, agrees_with_counting) {
    std::mt19937 random(7);
    const auto number = [&](unsigned limit) { return static_cast<Index>(random() % limit); };
    int n_exact = 0;
    for (int round = 0; round < 5000; ++round) {
        const Patch whole = box({{5, 2}, {7, 2}});
        std::vector<Patch> parts;
        std::vector<int> counts(4, 0);
        for (unsigned n = 1 + random() % 4; n > 0; --n) {
            const Index row = number(2);
            const Index column = number(2);
            const Index rows = 1 + number(static_cast<unsigned>(2 - row));
            const Index columns = 1 + number(static_cast<unsigned>(2 - column));
            parts.push_back(box({{5 + row, rows}, {7 + column, columns}}));
            for (Index at = 0; at < 4; ++at) {
                const bool is_in = at / 2 >= row && at / 2 < row + rows && at % 2 >= column &&
                                   at % 2 < column + columns;
                counts[static_cast<std::size_t>(at)] += is_in ? 1 : 0;
            }
        }
        const bool is_exact = std::ranges::count(counts, 1) == 4;
        n_exact += is_exact ? 1 : 0;
        EXPECT_EQ(cover_of(whole, parts).kind == CoverKind::exact, is_exact) << "round " << round;
    }
    EXPECT_GT(n_exact, 100);
}

TEST(CheckCover, takes_two_scalars_for_the_same_element) {
    const Cover twice = cover_of(box({}), {box({}), box({})});
    EXPECT_EQ(twice.kind, CoverKind::overlap);
    EXPECT_EQ(twice.first + twice.second, 1U);
    EXPECT_EQ(cover_of(box({}), {box({})}).kind, CoverKind::exact);
    EXPECT_EQ(cover_of(box({}), {}).kind, CoverKind::gap);
}

TEST(CheckCover, is_near_linear) {
    std::vector<std::vector<Index>> offsets;
    for (Index layer = 0; layer < 100; ++layer) {
        for (Index expert = 0; expert < 100; ++expert) {
            for (Index row = 0; row < 50; ++row) {
                offsets.push_back({layer, expert, row * 8});
            }
        }
    }
    std::shuffle(offsets.begin(), offsets.end(), std::mt19937(5));
    const std::vector<Index> sizes{1, 1, 8};
    std::vector<CoverBox> boxes;
    boxes.reserve(offsets.size());
    for (const std::vector<Index>& at : offsets) {
        boxes.push_back({at, sizes});
    }
    const Cover cover = check_cover(std::vector<Index>{100, 100, 400}, boxes);
    EXPECT_EQ(cover.kind, CoverKind::exact);
    // Once for each axis; comparing every pair takes a hundred thousand times as many.
    EXPECT_EQ(cover.n_looks, boxes.size() * 3);
}

}  // namespace
}  // namespace shardweld::layout
