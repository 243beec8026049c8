#include <map>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "layout/expression.hpp"
#include "shardweld/error.hpp"

#include "throws.hpp"

namespace shardweld::layout {
namespace {

using Shape = std::vector<Index>;
using Symbols = std::map<std::string, Index>;

BoundLayout bind_layout(const std::string& text, const Symbols& symbols,
                        std::optional<Shape> stored = std::nullopt) {
    const auto extent_of = [&](const std::string& name) {
        const auto found = symbols.find(name);
        if (found == symbols.end()) {
            throw Error(ErrorCode::not_found, "symbol '" + name + "' is not defined");
        }
        return found->second;
    };
    if (!stored) {
        return BoundLayout::bind(parse_layout(text), extent_of);
    }
    return BoundLayout::bind(parse_layout(text), extent_of, std::span<const Index>(*stored));
}

const char* const kQkv = "(g [q: p d | k: d | v: d]) h";

TEST(BoundLayout, computes_the_shape) {
    const BoundLayout bound = bind_layout(kQkv, {{"g", 4}, {"p", 2}, {"d", 32}, {"h", 64}});
    EXPECT_EQ(bound.shape(), (Shape{512, 64}));
    EXPECT_EQ(bound.segments(), segments_of(parse_layout(kQkv)));
    EXPECT_EQ(bound.extents(0), (Shape{32, 4, 64, 2}));
    EXPECT_EQ(bound.extents(1), (Shape{32, 4, 64}));
    EXPECT_EQ(bind_layout("()", {}).shape(), (Shape{1}));
    EXPECT_EQ(
        bind_layout("e h (t f [gate: | up: ])", {{"e", 3}, {"h", 4}, {"t", 2}, {"f", 5}}).shape(),
        (Shape{3, 4, 20}));
}

TEST(BoundLayout, compares_with_the_stored_shape) {
    const Symbols symbols = {{"g", 4}, {"p", 2}, {"d", 32}, {"h", 64}};
    EXPECT_EQ(bind_layout(kQkv, symbols, Shape{512, 64}).shape(), (Shape{512, 64}));
    EXPECT_ERROR(bind_layout(kQkv, symbols, Shape{384, 64}), ErrorCode::mismatch,
                 "stored shape [384, 64] does not fit layout \"(g [q: p d | k: d | v: d]) h\" with "
                 "g=4, p=2, d=32, h=64: dimension 0 is 384, expected 512");
    EXPECT_ERROR(bind_layout(kQkv, symbols, Shape{512, 65}), ErrorCode::mismatch,
                 "stored shape [512, 65] does not fit layout \"(g [q: p d | k: d | v: d]) h\" with "
                 "g=4, p=2, d=32, h=64: dimension 1 is 65, expected 64");
    EXPECT_ERROR(
        bind_layout(kQkv, symbols, Shape{512}), ErrorCode::mismatch,
        "stored shape [512] does not fit layout \"(g [q: p d | k: d | v: d]) h\" with g=4, "
        "p=2, d=32, h=64: it has 1 of the 2 dimensions expected");
    EXPECT_ERROR(bind_layout("()", {}, Shape{2}), ErrorCode::mismatch,
                 "stored shape [2] does not fit layout \"()\": dimension 0 is 2, expected 1");
}

TEST(BoundLayout, solves_the_star_exactly) {
    const Symbols symbols = {{"vocab", 10}, {"h", 4}};
    const auto padded = [&](Index rows) {
        return bind_layout("[v: vocab | pad: *] h", symbols, Shape{rows, 4});
    };
    EXPECT_EQ(padded(16).extents(1), (Shape{6, 4}));
    EXPECT_EQ(padded(11).extents(1), (Shape{1, 4}));
    EXPECT_EQ(padded(10).extents(1), (Shape{0, 4}));
    EXPECT_ERROR(padded(9), ErrorCode::mismatch,
                 "stored shape [9, 4] does not fit layout \"[v: vocab | pad: *] h\" with vocab=10, "
                 "h=4: dimension 0 is 9, expected at least 10");
    EXPECT_EQ(
        bind_layout("(t [a: n | b: * c])", {{"t", 2}, {"n", 3}, {"c", 5}}, Shape{36}).extents(1),
        (Shape{3, 5, 2}));
    EXPECT_ERROR(
        bind_layout("(t [a: n | b: * c])", {{"t", 2}, {"n", 3}, {"c", 5}}, Shape{35}),
        ErrorCode::mismatch,
        "stored shape [35] does not fit layout \"(t [a: n | b: * c])\" with t=2, n=3, c=5: "
        "dimension 0 is 35, expected 6 plus a multiple of 10");
    EXPECT_ERROR(bind_layout("(* c)", {{"c", 5}}, Shape{7}), ErrorCode::mismatch,
                 "stored shape [7] does not fit layout \"(* c)\" with c=5: dimension 0 is 7, "
                 "expected a multiple of 5");
    EXPECT_ERROR(bind_layout("(* c)", {{"c", 0}}, Shape{7}), ErrorCode::mismatch,
                 "stored shape [7] does not fit layout \"(* c)\" with c=0: dimension 0 is 7, "
                 "expected 0");
    EXPECT_ERROR(bind_layout("[v: vocab | pad: *] h", symbols), ErrorCode::usage,
                 "layout \"[v: vocab | pad: *] h\" has a '*', which is solved from a stored shape; "
                 "here there is none, so name the axis");
}

TEST(BoundLayout, refuses_extents_that_make_no_sense) {
    EXPECT_ERROR(bind_layout("(g d)", {{"g", -1}, {"d", 2}}), ErrorCode::mismatch,
                 "axis 'g' of layout \"(g d)\" has extent -1; extents are 0 or more");
    EXPECT_ERROR(bind_layout("g", {}), ErrorCode::not_found,
                 "symbol 'g' is not defined [layout \"g\"]");
    const Index large = Index{1} << 40;
    EXPECT_ERROR(bind_layout("(g d)", {{"g", large}, {"d", large}}), ErrorCode::corrupt,
                 "an extent of a layout is larger than 64-bit arithmetic holds");
    EXPECT_ERROR(bind_layout("g d", {{"g", large}, {"d", large}}), ErrorCode::corrupt,
                 "the shape of layout \"g d\" is larger than 64-bit arithmetic holds");
    EXPECT_EQ(bind_layout("g d", {{"g", 0}, {"d", 5}}).shape(), (Shape{0, 5}));
}

TEST(BoundLayout, asks_for_each_extent_once_in_the_order_of_the_text) {
    std::vector<std::string> asked;
    const auto extent_of = [&](const std::string& name) {
        asked.push_back(name);
        return Index{2};
    };
    EXPECT_EQ(BoundLayout::bind(parse_layout(kQkv), extent_of).shape(), (Shape{16, 2}));
    EXPECT_EQ(asked, (std::vector<std::string>{"g", "p", "d", "h"}));
}

TEST(BoundLayout, result_is_a_value) {
    const BoundLayout bound = bind_layout("[a: x | b: y]", {{"x", 2}, {"y", 3}});
    BoundLayout other = bind_layout("h", {{"h", 9}});
    other = bound;
    const BoundLayout moved = std::move(other);
    std::vector<SegmentPatch> parts;
    moved.lower(dense_shape(moved.shape()), parts);
    EXPECT_EQ(parts, (std::vector<SegmentPatch>{{0, {0, {{0, 2, 1}}}}, {1, {2, {{0, 3, 1}}}}}));
}

}  // namespace
}  // namespace shardweld::layout
