#include <map>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "layout/copy.hpp"
#include "layout/expression.hpp"
#include "shardweld/error.hpp"

#include "brute_force.hpp"
#include "throws.hpp"

namespace shardweld::layout {
namespace {

using test::Indices;
using test::meaning_of;
using test::Random;
using Symbols = std::map<std::string, Index>;
using Parts = std::vector<SegmentPatch>;
/// (segment label, axis name -> index): one element of a segment.
using Element = std::pair<std::string, std::map<std::string, Index>>;

BoundLayout bind_text(const std::string& text, const Symbols& symbols) {
    return BoundLayout::bind(parse_layout(text),
                             [&](const std::string& name) { return symbols.at(name); });
}

Parts lower(const BoundLayout& bound, const Patch& patch) {
    Parts parts;
    bound.lower(patch, parts);
    return parts;
}

/// The reading of a layout at one stored index, straight from the grammar.
class Reader {
  public:
    Reader(const Layout& layout, const Symbols& symbols) : layout_(layout), symbols_(symbols) {}

    Element element_at(const Indices& at) {
        element_ = {layout_.label, {}};
        for (std::size_t k = 0; k < at.size(); ++k) {
            read(layout_.dims[k], at[k]);
        }
        return element_;
    }

  private:
    Index extent(const LayoutItem& item) const {
        if (item.segments.empty()) {
            return symbols_.at(item.name);
        }
        Index sum = 0;
        for (const Segment& segment : item.segments) {
            sum += extent(segment.items);
        }
        return sum;
    }
    Index extent(const std::vector<LayoutItem>& items) const {
        Index product = 1;
        for (const LayoutItem& item : items) {
            product *= extent(item);
        }
        return product;
    }
    void read(const std::vector<LayoutItem>& items, Index at) {
        Index weight = extent(items);
        for (const LayoutItem& item : items) {
            weight /= extent(item);
            read(item, at / weight);
            at %= weight;
        }
    }
    void read(const LayoutItem& item, Index at) {
        if (item.segments.empty()) {
            element_.second[item.name] = at;
            return;
        }
        for (const Segment& segment : item.segments) {
            const Index n = extent(segment.items);
            if (at < n) {
                element_.first = segment.label;
                return read(segment.items, at);
            }
            at -= n;
        }
    }

    const Layout& layout_;
    const Symbols& symbols_;
    Element element_;
};

void expect_lower_keeps_meaning(const std::string& text, const Symbols& symbols, Random& random) {
    const Layout layout = parse_layout(text);
    const BoundLayout bound = bind_text(text, symbols);
    const Patch patch = random.patch_in(bound.shape());
    SCOPED_TRACE(text + " of " + to_text(patch));
    std::map<Element, Index> expected;
    Reader reader(layout, symbols);
    for (const auto& [at, address] : meaning_of(patch)) {
        expected[reader.element_at(at)] = address;
    }
    std::map<Element, Index> got;
    std::size_t elements = 0;
    for (const SegmentPatch& part : lower(bound, patch)) {
        const SegmentAxes& segment = bound.segments()[static_cast<std::size_t>(part.segment)];
        for (const auto& [at, address] : meaning_of(part.patch)) {
            Element element{segment.label, {}};
            for (std::size_t k = 0; k < at.size(); ++k) {
                element.second[segment.axes[k]] = at[k];
            }
            got[element] = address;
            ++elements;
        }
    }
    EXPECT_EQ(elements, expected.size()) << "patches are disjoint";
    ASSERT_EQ(got, expected);
}

TEST(Lower, keeps_meaning_for_layouts_of_every_kind) {
    Random random(12);
    const std::vector<std::string> layouts = {
        "a b",
        "(g [q: p d | k: d | v: d]) h",
        "(g p [q: d | z: d]) h",
        "(t [q: n d | k: n d | v: n r e | z: n r e | b: n r | a: n r])",
        "e h (t f [gate: | up: ])",
        "t (e h [gate: f | up: f])",
        "[v: vocab | pad: rest] h",
        "([a: [b: x | c: y] w | d: z u]) (m o)",
        "(a b c d) (e f)",
    };
    for (int i = 0; i < 3000; ++i) {
        SCOPED_TRACE(i);
        Symbols symbols;
        for (char name = 'a'; name <= 'z'; ++name) {
            symbols[std::string(1, name)] = random.between(1, 3);
        }
        symbols["vocab"] = random.between(1, 9);
        symbols["rest"] = random.between(0, 5);
        expect_lower_keeps_meaning(layouts[static_cast<std::size_t>(i) % layouts.size()], symbols,
                                   random);
    }
}

TEST(Lower, gives_one_patch_per_segment_of_a_whole_tensor) {
    const BoundLayout bound =
        bind_text("(g [q: p d | k: d | v: d]) h", {{"g", 4}, {"p", 2}, {"d", 8}, {"h", 16}});
    // Axes sorted by name: d g h p, and d g h.
    EXPECT_EQ(lower(bound, dense_shape(bound.shape(), 100)),
              (Parts{{0, {100, {{0, 8, 16}, {0, 4, 512}, {0, 16, 1}, {0, 2, 128}}}},
                     {1, {356, {{0, 8, 16}, {0, 4, 512}, {0, 16, 1}}}},
                     {2, {484, {{0, 8, 16}, {0, 4, 512}, {0, 16, 1}}}}}));
}

TEST(Lower, cuts_rows_at_the_borders_of_groups) {
    const BoundLayout bound = bind_text("(g d) h", {{"g", 3}, {"d", 4}, {"h", 2}});
    const auto count = [&](Index begin, Index end) {
        return lower(bound, dense({{begin, end - begin}, {0, 2}})).size();
    };
    EXPECT_EQ(count(0, 12), 1U);
    EXPECT_EQ(count(0, 3), 1U);
    EXPECT_EQ(count(0, 4), 1U);
    EXPECT_EQ(count(0, 5), 2U);
    EXPECT_EQ(count(3, 8), 2U);
    EXPECT_EQ(count(4, 8), 1U);
    EXPECT_EQ(count(3, 9), 3U);
}

TEST(Lower, of_empty_segments_and_patches) {
    const BoundLayout bound = bind_text("[v: a | pad: b] h", {{"a", 3}, {"b", 0}, {"h", 2}});
    EXPECT_EQ(lower(bound, dense_shape(bound.shape())), (Parts{{0, {0, {{0, 3, 2}, {0, 2, 1}}}}}));
    EXPECT_EQ(lower(bound, {0, {{0, 0, 2}, {0, 2, 1}}}), Parts{});
    const BoundLayout nothing = bind_text("(a b) h", {{"a", 3}, {"b", 0}, {"h", 2}});
    EXPECT_EQ(lower(nothing, dense_shape(nothing.shape())), Parts{});
}

TEST(Lower, appends) {
    const BoundLayout bound = bind_text("h", {{"h", 4}});
    Parts parts = lower(bound, {0, {{0, 2, 1}}});
    bound.lower({7, {{2, 2, 1}}}, parts);
    EXPECT_EQ(parts, (Parts{{0, {0, {{0, 2, 1}}}}, {0, {7, {{2, 2, 1}}}}}));
}

TEST(Lower, refuses_pieces_outside_of_the_shape) {
    const BoundLayout bound = bind_text("a b", {{"a", 4}, {"b", 5}});
    Parts parts;
    bound.lower({0, {{3, 1, 5}, {0, 5, 1}}}, parts);
    EXPECT_ERROR(bound.lower({0, {{3, 2, 5}, {0, 5, 1}}}, parts), ErrorCode::mismatch,
                 "the piece 0 + [3,5)*5 [0,5)*1 lies outside its tensor's shape [4, 5]");
    EXPECT_ERROR(bound.lower({0, {{-1, 2, 5}, {0, 5, 1}}}, parts), ErrorCode::mismatch,
                 "the piece 0 + [-1,1)*5 [0,5)*1 lies outside its tensor's shape [4, 5]");
    EXPECT_ERROR(bound.lower({0, {{0, 4, 5}}}, parts), ErrorCode::mismatch,
                 "the piece 0 + [0,4)*5 lies outside its tensor's shape [4, 5]");
    EXPECT_EQ(parts.size(), 1U);
}

/// The whole way of a fused tensor: rows of QKV held by several ranks, assembled as q.
TEST(Lower, assembles_q_from_row_shards) {
    const Symbols symbols = {{"g", 4}, {"p", 3}, {"d", 2}, {"h", 3}};
    const BoundLayout fused = bind_text("(g [q: p d | k: d | v: d]) h", symbols);
    const BoundLayout target = bind_text("q: (g p d) h", symbols);
    const Parts wanted = lower(target, dense_shape(target.shape()));
    for (Index ranks = 1; ranks <= 20; ++ranks) {
        SCOPED_TRACE(ranks);
        std::vector<Index> assembled(static_cast<std::size_t>(24 * 3), -1);
        const Index rows = (40 + ranks - 1) / ranks;
        for (Index lo = 0; lo < 40; lo += rows) {
            const Patch piece = dense({{lo, std::min(rows, 40 - lo)}, {0, 3}});
            for (const SegmentPatch& part : lower(fused, piece)) {
                const auto copy =
                    part.segment == 0 ? overlap(part.patch, wanted[0].patch) : std::nullopt;
                if (!copy) {
                    continue;
                }
                for (const auto& [src, dst] : test::relation_of(*copy)) {
                    assembled[static_cast<std::size_t>(dst)] = lo * 3 + src;
                }
            }
        }
        for (Index row = 0; row < 24; ++row) {
            const Index stored_row = row / 6 * 10 + row % 6;
            for (Index column = 0; column < 3; ++column) {
                ASSERT_EQ(assembled[static_cast<std::size_t>(row * 3 + column)],
                          stored_row * 3 + column);
            }
        }
    }
}

}  // namespace
}  // namespace shardweld::layout
