#include "layout/unfold.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "brute_force.hpp"

namespace shardweld::layout {
namespace {

using test::Indices;
using test::Meaning;
using test::Random;

/// Indices of a row-major tensor that the copy reads, and where it puts them.
Meaning read_by(const Copy& copy, const Indices& shape) {
    Meaning meaning;
    for (const auto& [src, dst] : test::relation_of(copy)) {
        Indices at(shape.size());
        Index rest = src;
        for (std::size_t k = shape.size(); k-- > 0;) {
            at[k] = rest % shape[k];
            rest /= shape[k];
        }
        meaning[at] = dst;
    }
    return meaning;
}

/// All patches together, each element once.
Meaning united(const std::vector<Patch>& patches) {
    Meaning meaning;
    for (const Patch& patch : patches) {
        for (const auto& [at, address] : test::meaning_of(patch)) {
            EXPECT_TRUE(meaning.emplace(at, address).second) << to_text(patch);
        }
    }
    return meaning;
}

TEST(Unfold, keeps_whole_axes_whole) {
    const std::vector<Index> shape{6, 4};
    EXPECT_EQ(unfold_src({0, 100, {{24, 1, 1}}}, shape),
              (std::vector<Patch>{{100, {{0, 6, 4}, {0, 4, 1}}}}));
    EXPECT_EQ(unfold_src({5, 0, {{3, 4, 2}, {2, 1, 1}}}, shape),
              (std::vector<Patch>{{0, {{1, 3, 2}, {1, 2, 1}}}}));
    EXPECT_EQ(unfold_src({2, 0, {{11, 1, 1}}}, shape).size(), 3U) << "a row's end, two rows, one";
    EXPECT_EQ(unfold_dst({7, 8, {}}, shape), (std::vector<Patch>{{7, {{2, 1, 0}, {0, 1, 0}}}}));
    EXPECT_EQ(unfold_src({3, 9, {}}, std::vector<Index>{1, 6, 1}),
              (std::vector<Patch>{{9, {{0, 1, 0}, {3, 1, 0}, {0, 1, 0}}}}));
}

TEST(Unfold, divides_axes_that_a_copy_steps_over) {
    const Copy every_second{1, 0, {{3, 8, 4}, {4, 2, 1}}};  // of rows of 8
    const auto shape = divided_src(every_second, {3, 8});
    EXPECT_EQ(shape, (std::vector<Index>{3, 4, 2}));
    EXPECT_EQ(unfold_src(every_second, shape),
              (std::vector<Patch>{{0, {{0, 3, 4}, {0, 4, 1}, {1, 1, 0}}}}));
    const Copy groups{0, 0, {{2, 12, 0}, {4, 1, 1}}};  // of 3 rows of 4
    EXPECT_EQ(divided_src(groups, {6, 4}), (std::vector<Index>{2, 3, 4}));
    EXPECT_EQ(divided_src({0, 0, {{24, 1, 1}}}, {6, 4}), (std::vector<Index>{6, 4}));
}

TEST(Unfold, equals_brute_force_where_the_copy_has_other_axes_than_the_tensor) {
    const std::vector<Indices> shapes{{24},      {6, 4},    {4, 6},       {2, 12},
                                      {2, 3, 4}, {4, 3, 2}, {1, 8, 3, 1}, {2, 2, 2, 3}};
    Random random(21);
    for (int i = 0; i < 3000; ++i) {
        const auto any = [&] {
            return shapes[static_cast<std::size_t>(
                random.between(0, static_cast<Index>(shapes.size()) - 1))];
        };
        const Indices axes = any();
        const Indices shape = any();
        Copy copy = *overlap(dense_shape(axes), dense(random.box_in(axes)));
        const bool is_src = random.chance(50);
        if (!is_src) {
            std::swap(copy.src_offset, copy.dst_offset);
            for (Loop& loop : copy.loops) {
                std::swap(loop.src_stride, loop.dst_stride);
            }
        }
        const auto patches = is_src ? unfold_src(copy, shape) : unfold_dst(copy, shape);
        if (!is_src) {
            std::swap(copy.src_offset, copy.dst_offset);
            for (Loop& loop : copy.loops) {
                std::swap(loop.src_stride, loop.dst_stride);
            }
        }
        ASSERT_EQ(united(patches), read_by(copy, shape)) << to_text(copy);
    }
}

}  // namespace
}  // namespace shardweld::layout
