#include "layout/patch.hpp"

#include <vector>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

#include "brute_force.hpp"
#include "throws.hpp"

namespace shardweld::layout {
namespace {

using test::Indices;
using test::Meaning;
using test::meaning_of;
using test::Random;

Index product(const Indices& extents) {
    Index result = 1;
    for (const Index extent : extents) {
        result *= extent;
    }
    return result;
}

TEST(Patch, dense_is_row_major) {
    const Patch p = dense({{2, 3}, {0, 4}, {5, 2}}, 7);
    EXPECT_EQ(p, (Patch{7, {{2, 3, 8}, {0, 4, 2}, {5, 2, 1}}}));
    EXPECT_EQ(p.volume(), 24);
    EXPECT_EQ(to_text(p), "7 + [2,5)*8 [0,4)*2 [5,7)*1");
    EXPECT_EQ(dense_shape(Indices{3, 4}), (Patch{0, {{0, 3, 4}, {0, 4, 1}}}));
    EXPECT_EQ(dense_shape({}, 5), (Patch{5, {}}));
    EXPECT_EQ(to_text(dense_shape({}, 5)), "5");
    EXPECT_EQ(dense_shape({}).volume(), 1);
    const Index half = Index{1} << 32;
    EXPECT_ERROR(dense_shape(Indices{half, half}), ErrorCode::corrupt,
                 "the volume of a box is larger than 64-bit arithmetic holds");
}

TEST(Patch, clip_at_the_borders) {
    const Patch p{10, {{4, 6, 3}}};
    EXPECT_EQ(clip(p, {{0, 4}}), std::nullopt);
    EXPECT_EQ(clip(p, {{0, 5}}), (Patch{10, {{4, 1, 3}}}));
    EXPECT_EQ(clip(p, {{9, 9}}), (Patch{25, {{9, 1, 3}}}));
    EXPECT_EQ(clip(p, {{10, 9}}), std::nullopt);
    EXPECT_EQ(clip(p, {{5, 0}}), std::nullopt);
    EXPECT_EQ(clip(p, {{0, 99}}), p);
    EXPECT_ERROR(clip(p, Box{}), ErrorCode::internal, "a patch of 1 axes is clipped to a box of 0");
}

TEST(Patch, embed) {
    const Patch p{4, {{1, 2, 3}, {0, 3, 1}}};
    EXPECT_EQ(embed(p, 0, 9), (Patch{4, {{9, 1, 0}, {1, 2, 3}, {0, 3, 1}}}));
    EXPECT_EQ(embed(p, 2, 9), (Patch{4, {{1, 2, 3}, {0, 3, 1}, {9, 1, 0}}}));
    EXPECT_ERROR(embed(p, 3, 0), ErrorCode::internal, "new axis 3 of a patch with 2 axes");
}

TEST(Patch, address_span_covers_first_and_last) {
    EXPECT_EQ(address_span({5, {{1, 2, 30}, {0, 3, 2}}}), (Range{5, 35}));
    EXPECT_EQ(address_span({5, {}}), (Range{5, 1}));
    EXPECT_ERROR(address_span({5, {{0, 0, 1}}}), ErrorCode::internal,
                 "no address span: the patch 5 + [0,0)*1 is empty or has a negative stride");
    EXPECT_ERROR(address_span({5, {{0, 2, -1}}}), ErrorCode::internal,
                 "no address span: the patch 5 + [0,2)*-1 is empty or has a negative stride");
    EXPECT_ERROR(address_span({0, {{0, Index{1} << 40, Index{1} << 40}}}), ErrorCode::corrupt,
                 "the address span of a patch is larger than 64-bit arithmetic holds");
}

TEST(BoxesOfRange, at_the_borders_of_rows) {
    const auto count = [](Index begin, Index end) {
        return boxes_of_range(begin, end, Indices{4, 5}).size();
    };
    EXPECT_EQ(count(0, 20), 1U);
    EXPECT_EQ(count(0, 19), 2U);
    EXPECT_EQ(count(1, 20), 2U);
    EXPECT_EQ(count(1, 19), 3U);
    EXPECT_EQ(count(4, 5), 1U);
    EXPECT_EQ(count(4, 6), 2U);
    EXPECT_EQ(count(5, 10), 1U);
    EXPECT_EQ(count(5, 11), 2U);
    EXPECT_EQ(count(7, 7), 0U);
    EXPECT_EQ(boxes_of_range(0, 1, {}).size(), 1U);
    EXPECT_EQ(boxes_of_range(0, 0, {}).size(), 0U);
    EXPECT_ERROR(count(0, 21), ErrorCode::mismatch,
                 "the range [0, 21) lies outside its 20 elements");
    EXPECT_ERROR(count(-1, 2), ErrorCode::mismatch,
                 "the range [-1, 2) lies outside its 20 elements");
}

TEST(Flat, holds_positions_in_row_major_order) {
    Random random(2);
    for (int i = 0; i < 4000; ++i) {
        SCOPED_TRACE(i);
        const Indices shape = random.shape(4, 5);
        Box box;
        for (const Index extent : shape) {
            box.push_back({random.between(0, 3), extent});
        }
        const Index begin = random.between(0, product(shape));
        const Index end = random.between(begin, product(shape));
        const Index offset = random.between(0, 9);

        Meaning expected;
        Index position = 0;
        test::for_each_index(shape, [&](Indices j) {
            for (std::size_t k = 0; k < j.size(); ++k) {
                j[k] += box[k].lo;
            }
            if (position >= begin && position < end) {
                expected[j] = offset + position - begin;
            }
            ++position;
        });
        const std::vector<Patch> parts = flat(box, begin, end, offset);
        EXPECT_LE(parts.size(), 2 * shape.size() - 1);
        Meaning got;
        std::size_t elements = 0;
        for (const Patch& part : parts) {
            elements += static_cast<std::size_t>(part.volume());
            got.merge(meaning_of(part));
        }
        EXPECT_EQ(elements, expected.size());
        ASSERT_EQ(got, expected);
    }
}

TEST(Flat, of_empty_boxes_and_scalars) {
    EXPECT_EQ(flat({{0, 0}, {0, 5}}, 0, 0), (std::vector<Patch>{}));
    EXPECT_EQ(flat({}, 0, 1, 4), (std::vector<Patch>{{4, {}}}));
    EXPECT_ERROR(flat({{0, 0}, {0, 5}}, 0, 1), ErrorCode::mismatch,
                 "the range [0, 1) lies outside its 0 elements");
}

}  // namespace
}  // namespace shardweld::layout
