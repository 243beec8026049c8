#include "layout/copy.hpp"

#include <optional>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "layout/patch.hpp"
#include "shardweld/error.hpp"

#include "brute_force.hpp"
#include "throws.hpp"

namespace shardweld::layout {
namespace {

using test::Indices;
using test::meaning_of;
using test::Random;
using test::Relation;
using test::relation_of;

Relation common_addresses(const Patch& src, const Patch& dst) {
    Relation pairs;
    const auto there = meaning_of(dst);
    for (const auto& [at, address] : meaning_of(src)) {
        const auto found = there.find(at);
        if (found != there.end()) {
            pairs.insert({address, found->second});
        }
    }
    return pairs;
}

Relation relation_of_optional(const std::optional<Copy>& copy) {
    return copy ? relation_of(*copy) : Relation{};
}

TEST(Overlap, of_touching_and_crossing_ranges) {
    const Patch p{0, {{0, 4, 1}}};
    EXPECT_EQ(overlap(p, {0, {{4, 4, 1}}}), std::nullopt);
    EXPECT_EQ(overlap(p, {7, {{3, 4, 1}}}), (Copy{3, 7, {}}));
    EXPECT_EQ(overlap({7, {{3, 4, 1}}}, p), (Copy{7, 3, {}}));
    EXPECT_EQ(overlap(p, {7, {{2, 4, 1}}}), (Copy{2, 7, {{2, 1, 1}}}));
    EXPECT_EQ(overlap({3, {}}, {4, {}}), (Copy{3, 4, {}}));
    EXPECT_ERROR(overlap(p, {0, {}}), ErrorCode::internal, "overlap of patches with 1 and 0 axes");
}

TEST(Overlap, of_equal_dense_patches_is_one_run) {
    const Patch p = dense_shape(Indices{3, 4, 5}, 2);
    const Patch q = dense_shape(Indices{3, 4, 5}, 102);
    EXPECT_EQ(overlap(p, q), (Copy{2, 102, {{60, 1, 1}}}));
    EXPECT_EQ(to_text(*overlap(p, q)), "2 -> 102: 60x(1,1)");
    EXPECT_EQ(to_text(Copy{1, 2, {{3, 4, 5}, {6, 7, 8}}}), "1 -> 2: 3x(4,5) 6x(7,8)");
    EXPECT_EQ(to_text(Copy{1, 2, {}}), "1 -> 2");
}

TEST(Overlap, relates_common_indices_and_its_converse_is_symmetric) {
    Random random(3);
    int found = 0;
    for (int i = 0; i < 4000; ++i) {
        SCOPED_TRACE(i);
        const Indices shape = random.shape(4, 6);
        const Patch src = random.patch_in(shape);
        const Patch dst = random.patch_in(shape);
        const Relation expected = common_addresses(src, dst);
        const std::optional<Copy> copy = overlap(src, dst);
        EXPECT_EQ(copy.has_value(), !expected.empty());
        ASSERT_EQ(relation_of_optional(copy), expected) << to_text(src) << " / " << to_text(dst);
        Relation converse;
        for (const auto& [from, to] : relation_of_optional(overlap(dst, src))) {
            converse.insert({to, from});
        }
        ASSERT_EQ(converse, expected);
        if (copy) {
            ++found;
            EXPECT_EQ(normal(*copy), *copy);
            EXPECT_EQ(copy->volume(), static_cast<Index>(expected.size()));
        }
    }
    EXPECT_GT(found, 1000);
}

TEST(Overlap, may_be_clipped_on_either_side) {
    Random random(4);
    for (int i = 0; i < 4000; ++i) {
        SCOPED_TRACE(i);
        const Indices shape = random.shape(4, 6);
        const Patch src = random.patch_in(shape);
        const Patch dst = random.patch_in(shape);
        const Box box = random.box_in(shape);
        const std::optional<Patch> src_part = clip(src, box);
        const std::optional<Patch> dst_part = clip(dst, box);
        const std::optional<Copy> left = src_part ? overlap(*src_part, dst) : std::nullopt;
        const std::optional<Copy> right = dst_part ? overlap(src, *dst_part) : std::nullopt;
        ASSERT_EQ(left, right);
    }
}

TEST(Normal, drops_unit_loops_orders_and_merges) {
    EXPECT_EQ(normal({1, 2, {{4, 1, 1}, {1, 9, 9}, {3, 4, 4}}}), (Copy{1, 2, {{12, 1, 1}}}));
    EXPECT_EQ(normal({1, 2, {{4, 1, 3}, {3, 4, 1}}}), (Copy{1, 2, {{4, 1, 3}, {3, 4, 1}}}));
    EXPECT_EQ(normal({1, 2, {{3, 4, 1}, {4, 1, 3}}}), (Copy{1, 2, {{4, 1, 3}, {3, 4, 1}}}));
    // A source that repeats itself merges too, as long as both sides are regular.
    EXPECT_EQ(normal({0, 0, {{2, 0, 12}, {3, 0, 4}}}), (Copy{0, 0, {{6, 0, 4}}}));
    EXPECT_EQ(normal({0, 0, {{1, 5, 5}}}), (Copy{0, 0, {}}));
    EXPECT_EQ(normal({0, 0, {{2, 3, 0}, {2, 7, 0}}}), (Copy{0, 0, {{2, 7, 0}, {2, 3, 0}}}));
}

TEST(Normal, keeps_the_relation) {
    Random random(5);
    for (int i = 0; i < 4000; ++i) {
        SCOPED_TRACE(i);
        const Copy copy = random.copy(5, 4, random.chance(20));
        ASSERT_EQ(relation_of(normal(copy)), relation_of(copy)) << to_text(copy);
        EXPECT_EQ(normal(normal(copy)), normal(copy));
    }
}

TEST(PackUnpack, compose_to_the_copy_through_a_dense_message) {
    Random random(6);
    for (int i = 0; i < 4000; ++i) {
        SCOPED_TRACE(i);
        const Copy copy = random.copy(4, 5, random.chance(20));
        const auto [pack, unpack] = pack_unpack(copy);
        std::map<Index, Index> from;
        for (const auto& [src, message] : relation_of(pack)) {
            EXPECT_TRUE(from.emplace(message, src).second);
        }
        EXPECT_EQ(from.begin()->first, 0);
        EXPECT_EQ(from.rbegin()->first, copy.volume() - 1);
        Relation composed;
        for (const auto& [message, dst] : relation_of(unpack)) {
            composed.insert({from.at(message), dst});
        }
        ASSERT_EQ(composed, relation_of(copy)) << to_text(copy);
    }
}

TEST(Span, covers_all_addresses_of_a_side) {
    Random random(7);
    for (int i = 0; i < 1000; ++i) {
        const Copy copy = random.copy(4, 4, random.chance(20));
        const Relation relation = relation_of(copy);
        Index lo = relation.begin()->second;
        Index hi = lo;
        for (const auto& pair : relation) {
            lo = std::min(lo, pair.second);
            hi = std::max(hi, pair.second);
        }
        ASSERT_EQ(dst_span(copy), (Range{lo, hi - lo + 1}));
        ASSERT_EQ(src_span(copy), (Range{relation.begin()->first,
                                         relation.rbegin()->first - relation.begin()->first + 1}));
    }
    EXPECT_EQ(src_span({5, 6, {{0, 1, 1}, {9, 1, 1}}}).extent, 0);
    EXPECT_EQ(src_span({5, 6, {{3, -2, 1}}}), (Range{1, 5}));
    const Index large = Index{1} << 62;
    EXPECT_ERROR(src_span({0, 0, {{2, large, 1}, {2, large, 1}, {2, large, 1}}}),
                 ErrorCode::corrupt,
                 "the address span of a copy is larger than 64-bit arithmetic holds");
}

}  // namespace
}  // namespace shardweld::layout
