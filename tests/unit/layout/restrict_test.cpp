#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout/copy.hpp"
#include "shardweld/error.hpp"

#include "brute_force.hpp"
#include "throws.hpp"

namespace shardweld::layout {
namespace {

using test::Random;
using test::Relation;
using test::relation_of;

constexpr Index kMost = std::numeric_limits<Index>::max();
constexpr Index kLeast = std::numeric_limits<Index>::min();

Relation kept(const Copy& copy, Index begin, Index end, bool by_dst) {
    Relation relation;
    for (const auto& pair : relation_of(copy)) {
        const Index address = by_dst ? pair.second : pair.first;
        if (address >= begin && address < end) {
            relation.insert(pair);
        }
    }
    return relation;
}

TEST(Restrict, gives_all_or_nothing_at_the_borders) {
    const Copy copy{100, 10, {{3, 1, 7}, {4, 3, 1}}};  // destination [10, 28)
    EXPECT_EQ(restrict_dst(copy, 10, 28), (std::vector<Copy>{copy}));
    EXPECT_EQ(restrict_dst(copy, kLeast, kMost), (std::vector<Copy>{copy}));
    EXPECT_EQ(restrict_dst(copy, 0, 10), (std::vector<Copy>{}));
    EXPECT_EQ(restrict_dst(copy, 28, 99), (std::vector<Copy>{}));
    EXPECT_EQ(restrict_dst(copy, 20, 20), (std::vector<Copy>{}));
    EXPECT_EQ(restrict_dst(copy, 22, 18), (std::vector<Copy>{}));
    EXPECT_EQ(restrict_dst(copy, 14, 17), (std::vector<Copy>{})) << "a gap between rows";
    EXPECT_EQ(restrict_dst(copy, 10, 27),
              (std::vector<Copy>{{100, 10, {{2, 1, 7}, {4, 3, 1}}}, {102, 24, {{3, 3, 1}}}}));
    EXPECT_EQ(restrict_dst(copy, 11, 28),
              (std::vector<Copy>{{103, 11, {{3, 3, 1}}}, {101, 17, {{2, 1, 7}, {4, 3, 1}}}}));
    EXPECT_EQ(restrict_dst(copy, 14, 24), (std::vector<Copy>{{101, 17, {{4, 3, 1}}}}));
    EXPECT_EQ(restrict_dst({5, 6, {}}, 6, 7), (std::vector<Copy>{{5, 6, {}}}));
    EXPECT_EQ(restrict_dst({5, 6, {}}, 7, 8), (std::vector<Copy>{}));
}

TEST(Restrict, equals_brute_force_on_both_sides) {
    Random random(8);
    int cut = 0;
    for (int i = 0; i < 6000; ++i) {
        const bool by_dst = i % 2 == 0;
        const Copy copy = random.copy(4, 5, false);
        const Range span = by_dst ? dst_span(copy) : src_span(copy);
        const Index begin = random.between(span.lo - 2, span.lo + span.extent + 1);
        const Index end = random.between(begin - 1, span.lo + span.extent + 3);
        SCOPED_TRACE(to_text(copy) + " [" + std::to_string(begin) + ", " + std::to_string(end) +
                     (by_dst ? ") dst" : ") src"));
        const std::vector<Copy> parts =
            by_dst ? restrict_dst(copy, begin, end) : restrict_src(copy, begin, end);
        ASSERT_EQ(relation_of(parts), kept(copy, begin, end, by_dst));
        EXPECT_LE(parts.size(), 2 * copy.loops.size() - 1);
        for (const Copy& part : parts) {
            EXPECT_EQ(normal(part), part);
        }
        cut += parts.size() > 1 ? 1 : 0;
    }
    EXPECT_GT(cut, 1000);
}

TEST(Restrict, consecutive_ranges_give_every_element_once) {
    Random random(9);
    for (int i = 0; i < 500; ++i) {
        const Copy copy = random.copy(4, 5, false);
        const Range span = src_span(copy);
        const Index step = random.between(1, 9);
        Relation all;
        for (Index at = span.lo; at < span.lo + span.extent; at += step) {
            all.merge(relation_of(restrict_src(copy, at, at + step)));
        }
        ASSERT_EQ(all, relation_of(copy)) << to_text(copy) << " in steps of " << step;
    }
}

TEST(Restrict, refuses_to_cut_loops_that_interleave_or_repeat) {
    // Rows of 4 elements 3 apart share addresses.
    const Copy interleaved{0, 0, {{2, 4, 3}, {4, 1, 1}}};
    EXPECT_EQ(restrict_dst(interleaved, 0, 7).size(), 1U) << "nothing to cut";
    EXPECT_ERROR(restrict_dst(interleaved, 0, 6), ErrorCode::unsupported,
                 "the copy 0 -> 0: 2x(4,3) 4x(1,1) cannot be cut at an address: its loops "
                 "interleave or repeat");
    const Copy repeated{5, 0, {{3, 0, 4}, {4, 1, 1}}};
    EXPECT_EQ(restrict_src(repeated, 5, 9), (std::vector<Copy>{repeated}));
    EXPECT_EQ(restrict_src(repeated, 9, 12), (std::vector<Copy>{}));
    EXPECT_EQ(restrict_dst(repeated, 0, 5).size(), 2U);
    EXPECT_ERROR(restrict_src(repeated, 5, 8), ErrorCode::unsupported,
                 "the copy 5 -> 0: 3x(0,4) 4x(1,1) cannot be cut at an address: its loops "
                 "interleave or repeat");
    // The last address just fits: span of the inner loop = stride of the outer one.
    EXPECT_EQ(restrict_dst({0, 0, {{2, 4, 4}, {4, 2, 1}}}, 0, 7).size(), 2U);
}

}  // namespace
}  // namespace shardweld::layout
