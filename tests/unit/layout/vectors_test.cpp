// The layout algebra's reference results, computed by an independent definition in Python.
#include <algorithm>
#include <fstream>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "layout/copy.hpp"
#include "layout/expression.hpp"
#include "layout/patch.hpp"

namespace shardweld::layout {
namespace {

using nlohmann::json;

const json& vectors() {
    static const json all = [] {
        std::ifstream file(SHARDWELD_TEST_VECTORS "/layout.json");
        return json::parse(file);
    }();
    return all;
}

Axis axis_from(const json& value) {
    return {value.at(0), value.at(1), value.at(2)};
}

Patch patch_from(const json& value) {
    Patch p;
    p.offset = value.at("offset");
    for (const json& axis : value.at("axes")) {
        p.axes.push_back(axis_from(axis));
    }
    return p;
}

std::vector<Patch> patches_from(const json& value) {
    std::vector<Patch> patches;
    for (const json& patch : value) {
        patches.push_back(patch_from(patch));
    }
    return patches;
}

Copy copy_from(const json& value) {
    Copy copy{value.at("src"), value.at("dst"), {}};
    for (const json& loop : value.at("loops")) {
        copy.loops.push_back({loop.at(0), loop.at(1), loop.at(2)});
    }
    return copy;
}

std::optional<Copy> optional_copy_from(const json& value) {
    return value.is_null() ? std::nullopt : std::optional<Copy>(copy_from(value));
}

TEST(Vectors, are_all_there) {
    EXPECT_EQ(vectors().at("lower").size(), 390U);
    EXPECT_EQ(vectors().at("flat").size(), 60U);
    EXPECT_EQ(vectors().at("overlap").size(), 120U);
    EXPECT_EQ(vectors().at("normal").size(), 80U);
    EXPECT_EQ(vectors().at("pack_unpack").size(), 39U);
}

TEST(Vectors, flat) {
    for (const json& v : vectors().at("flat")) {
        Box box;
        for (const json& range : v.at("box")) {
            box.push_back({range.at(0), range.at(1)});
        }
        EXPECT_EQ(flat(box, v.at("begin"), v.at("end"), v.at("offset")),
                  patches_from(v.at("patches")))
            << v;
    }
}

TEST(Vectors, overlap) {
    for (const json& v : vectors().at("overlap")) {
        EXPECT_EQ(overlap(patch_from(v.at("src")), patch_from(v.at("dst"))),
                  optional_copy_from(v.at("copy")))
            << v;
    }
}

TEST(Vectors, normal) {
    for (const json& v : vectors().at("normal")) {
        EXPECT_EQ(normal(copy_from(v.at("copy"))), copy_from(v.at("normal"))) << v;
    }
}

TEST(Vectors, pack_unpack) {
    for (const json& v : vectors().at("pack_unpack")) {
        const auto [pack, unpack] = pack_unpack(copy_from(v.at("copy")));
        EXPECT_EQ(pack, copy_from(v.at("pack"))) << v;
        EXPECT_EQ(unpack, copy_from(v.at("unpack"))) << v;
    }
}

TEST(Vectors, lower) {
    for (const json& v : vectors().at("lower")) {
        const std::vector<Index> shape = v.at("shape");
        const BoundLayout bound = BoundLayout::bind(
            parse_layout(v.at("layout").get<std::string>()),
            [&](const std::string& name) { return v.at("extents").at(name).get<Index>(); },
            std::span<const Index>(shape));
        std::vector<SegmentPatch> got;
        bound.lower(patch_from(v.at("patch")), got);
        std::vector<SegmentPatch> expected;
        for (const json& part : v.at("segments")) {
            const auto is_it = [&](const SegmentAxes& s) { return s.label == part.at("segment"); };
            const auto& segments = bound.segments();
            const auto segment = std::find_if(segments.begin(), segments.end(), is_it);
            ASSERT_NE(segment, segments.end()) << part;
            SegmentPatch patch{static_cast<int>(segment - segments.begin()),
                               {part.at("offset"), {}}};
            ASSERT_EQ(part.at("axes").size(), segment->axes.size()) << v;
            for (const std::string& name : segment->axes) {
                patch.patch.axes.push_back(axis_from(part.at("axes").at(name)));
            }
            expected.push_back(patch);
        }
        const auto before = [](const SegmentPatch& a, const SegmentPatch& b) {
            return std::tuple(a.segment, a.patch.offset) < std::tuple(b.segment, b.patch.offset);
        };
        std::sort(got.begin(), got.end(), before);
        std::sort(expected.begin(), expected.end(), before);
        EXPECT_EQ(got, expected) << v;
    }
}

}  // namespace
}  // namespace shardweld::layout
