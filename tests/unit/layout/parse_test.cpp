#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout/expression.hpp"
#include "shardweld/error.hpp"

#include "throws.hpp"

namespace shardweld::layout {
namespace {

using Segments = std::vector<SegmentAxes>;

TEST(Parse, names_products_and_sums) {
    const Layout layout = parse_layout("(g [q: p d | k: d | v: d]) h");
    EXPECT_EQ(layout.label, "");
    EXPECT_EQ(layout.text, "(g [q: p d | k: d | v: d]) h");
    ASSERT_EQ(layout.dims.size(), 2U);
    ASSERT_EQ(layout.dims[0].size(), 2U);
    EXPECT_EQ(layout.dims[0][0].name, "g");
    const std::vector<Segment>& segments = layout.dims[0][1].segments;
    ASSERT_EQ(segments.size(), 3U);
    EXPECT_EQ(segments[0].label, "q");
    ASSERT_EQ(segments[0].items.size(), 2U);
    EXPECT_EQ(segments[0].items[1].name, "d");
    EXPECT_EQ(segments[0].items[1].column, 10U);
    EXPECT_EQ(segments[2].label, "v");
    EXPECT_EQ(layout.dims[1][0].name, "h");
}

TEST(Parse, blanks_do_not_matter) {
    EXPECT_EQ(segments_of(parse_layout(" q:(g p d)h ")),
              segments_of(parse_layout("q: ( g p d ) h")));
    EXPECT_EQ(parse_layout("q :(g)").label, "q");
    EXPECT_EQ(parse_layout("()").dims.size(), 1U);
}

TEST(SegmentsOf, sorts_axes_by_name_and_keeps_the_order_of_segments) {
    EXPECT_EQ(
        segments_of(parse_layout("(g [q: p d | k: d | v: d]) h")),
        (Segments{{"q", {"d", "g", "h", "p"}}, {"k", {"d", "g", "h"}}, {"v", {"d", "g", "h"}}}));
    EXPECT_EQ(segments_of(parse_layout("q: (g p d) h")), (Segments{{"q", {"d", "g", "h", "p"}}}));
    EXPECT_EQ(segments_of(parse_layout("o i")), (Segments{{"", {"i", "o"}}}));
    EXPECT_EQ(segments_of(parse_layout("e h (t f [gate: | up: ])")),
              (Segments{{"gate", {"e", "f", "h", "t"}}, {"up", {"e", "f", "h", "t"}}}));
    EXPECT_EQ(segments_of(parse_layout("[v: vocab | pad: *] h")),
              (Segments{{"v", {"h", "vocab"}}, {"pad", {"*", "h"}}}));
    EXPECT_EQ(segments_of(parse_layout("([a: [b: x | c: y] w | d: z])")),
              (Segments{{"b", {"w", "x"}}, {"c", {"w", "y"}}, {"d", {"z"}}}));
    EXPECT_EQ(segments_of(parse_layout("[a: x] [b: y | c: x2]")),
              (Segments{{"b", {"x", "y"}}, {"c", {"x", "x2"}}}));
}

TEST(WithLeadingAxis, keeps_the_label_in_front) {
    EXPECT_EQ(with_leading_axis(parse_layout("o i"), "l").text, "l o i");
    const Layout stacked = with_leading_axis(parse_layout("q: (g p d) h"), "l");
    EXPECT_EQ(stacked.text, "q: l (g p d) h");
    EXPECT_EQ(stacked.dims.size(), 3U);
    EXPECT_EQ(segments_of(stacked), (Segments{{"q", {"d", "g", "h", "l", "p"}}}));
    EXPECT_EQ(with_leading_axis(parse_layout("[v: a | w: b] h"), "l").text, "l [v: a | w: b] h");
    EXPECT_ERROR(with_leading_axis(parse_layout("l h"), "l"), ErrorCode::usage,
                 "layout \"l l h\": column 3: axis 'l' a second time on the way to the layout; "
                 "every axis of a segment needs its own name");
}

TEST(Parse, errors_name_the_column) {
    const auto expect = [](const std::string& text, const std::string& rest) {
        SCOPED_TRACE(text);
        EXPECT_ERROR(parse_layout(text), ErrorCode::usage,
                     "layout \"" + text + "\": column " + rest);
    };
    expect("", "1: expected at least one dim, found the end");
    expect("  ", "3: expected at least one dim, found the end");
    expect("q:", "3: expected at least one dim, found the end");
    expect("(g h", "5: expected a name, '*', '[' or ')', found the end");
    expect("g)", "2: expected a name, '*', '(' or '[', found ')'");
    expect("(g (h))", "4: expected a name, '*', '[' or ')', found '('");
    expect("(g [q: p d | k: d) h", "18: expected a name, '*', '[', '|' or ']', found ')'");
    expect("[q: p", "6: expected a name, '*', '[', '|' or ']', found the end");
    expect("[q p]", "4: expected ':', found 'p'");
    expect("[: p]", "2: expected a segment's label, found ':'");
    expect("[q: p |]", "8: expected a segment's label, found ']'");
    expect("[*: p]", "2: expected a segment's label, found '*'");
    expect("a b: c", "4: expected a name, '*', '(' or '[', found ':'");
    expect("a | b", "3: expected a name, '*', '(' or '[', found '|'");
    expect("a 2b",
           "3: '2' does not belong in a layout; names are letters, digits and _, beginning with "
           "no digit");
    expect("a, b",
           "2: ',' does not belong in a layout; names are letters, digits and _, beginning with "
           "no digit");
    expect("[v: a | pad: *] *", "17: a second '*'; only one extent can be solved from a shape");
}

TEST(Parse, refuses_what_has_no_single_meaning) {
    const auto expect = [](const std::string& text, const std::string& rest) {
        SCOPED_TRACE(text);
        EXPECT_ERROR(parse_layout(text), ErrorCode::usage,
                     "layout \"" + text + "\": column " + rest);
    };
    expect("h h",
           "3: axis 'h' a second time on the way to the layout; every axis of a segment needs its "
           "own name");
    expect("(g [q: d | k: g]) h",
           "15: axis 'g' a second time on the way to segment \"k\"; every axis of a segment needs "
           "its own name");
    expect("[q: d | q: e]", "9: a second segment \"q\"; every segment needs its own label");
    expect("[a: x | b: y] [c: z]", "16: a second segment \"c\"; every segment needs its own label");
    EXPECT_EQ(segments_of(parse_layout("[q: d | k: d]")).size(), 2U)
        << "alternatives may share names";
}

std::string nested(int depth) {
    std::string text = "x";
    for (int i = 0; i < depth; ++i) {
        text = "[s" + std::to_string(i) + ": " + text + "]";
    }
    return text;
}

std::string axes(int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
        text += (i == 0 ? "a" : " a") + std::to_string(i);
    }
    return text;
}

TEST(Parse, limits_depth_rank_and_length) {
    EXPECT_EQ(segments_of(parse_layout(nested(16))), (Segments{{"s0", {"x"}}}));
    EXPECT_ERROR(parse_layout(nested(17)), ErrorCode::usage,
                 "layout \"" + nested(17) + "\": column 88: sums nested deeper than 16");
    std::string side_by_side = "[s: x";
    for (int i = 0; i < 20; ++i) {
        side_by_side += " | t" + std::to_string(i) + ": [u" + std::to_string(i) + ": x]";
    }
    EXPECT_EQ(segments_of(parse_layout(side_by_side + "]")).size(), 21U) << "not nested";
    // Names a0 a1 ... a7: 3 characters each, so one more begins at column 25.
    static_assert(kMaxAxes == 8);
    EXPECT_EQ(parse_layout(axes(8)).dims.size(), 8U);
    EXPECT_ERROR(parse_layout(axes(9)), ErrorCode::usage,
                 "layout \"" + axes(9) + "\": column 25: more than 8 dims, the most there may be");
    EXPECT_EQ(parse_layout("(" + axes(8) + ")").dims[0].size(), 8U);
    EXPECT_ERROR(parse_layout("(" + axes(9) + ")"), ErrorCode::usage,
                 "layout \"(" + axes(9) +
                     ")\": column 26: more than 8 factors in one product, the most there may be");
    EXPECT_ERROR(
        parse_layout("(" + axes(7) + ") (x y)"), ErrorCode::usage,
        "layout \"(" + axes(7) +
            ") (x y)\": column 27: the layout has more than 8 axes, the most there may be");
    EXPECT_EQ(parse_layout(std::string(4095, ' ') + "h").dims.size(), 1U);
    EXPECT_ERROR(parse_layout(std::string(4097, 'h')), ErrorCode::usage,
                 "layout \"" + std::string(200, 'h') +
                     "...\": column 4097: longer than 4096 "
                     "characters");
}

TEST(Parse, shows_hostile_text_escaped) {
    EXPECT_ERROR(parse_layout("a\n"), ErrorCode::usage,
                 "layout \"a\\x0a\": column 2: '\\x0a' does not belong in a layout; names are "
                 "letters, digits and _, beginning with no digit");
}

}  // namespace
}  // namespace shardweld::layout
