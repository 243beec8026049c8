#include <random>

#include <gtest/gtest.h>

#include "formats/fsdp/placements.hpp"

#include "scratch.hpp"

namespace shardweld::formats::fsdp {
namespace {

using Indices = std::vector<Index>;

// The rule in the plainest words: lists of indices, one element at a time.
Indices chunk(const Indices& list, Index pieces, Index at) {
    const auto n = static_cast<Index>(list.size());
    const Index step = (n + pieces - 1) / pieces;
    Indices taken;
    for (Index i = 0; i < n; ++i) {
        if (i / std::max<Index>(step, 1) == at) {
            taken.push_back(list[static_cast<std::size_t>(i)]);
        }
    }
    return taken;
}

std::vector<Indices> plain_owned(const std::vector<Index>& shape, const std::vector<DimCut>& cuts) {
    std::vector<Indices> lists;
    for (const Index extent : shape) {
        Indices all;
        for (Index i = 0; i < extent; ++i) {
            all.push_back(i);
        }
        lists.push_back(all);
    }
    for (const DimCut& cut : cuts) {
        Indices taken;
        for (Index group = 0; group < cut.groups; ++group) {
            const Indices part =
                chunk(chunk(lists[cut.dim], cut.groups, group), cut.pieces, cut.coordinate);
            taken.insert(taken.end(), part.begin(), part.end());
        }
        lists[cut.dim] = taken;
    }
    return lists;
}

Indices listed(const Runs& runs) {
    Indices list;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        EXPECT_GT(runs[i].extent, 0);
        EXPECT_TRUE(i == 0 || runs[i - 1].lo + runs[i - 1].extent < runs[i].lo);
        for (Index k = 0; k < runs[i].extent; ++k) {
            list.push_back(runs[i].lo + k);
        }
    }
    return list;
}

Indices lengths(Index extent, Index pieces) {
    Indices found;
    for (Index at = 0; at < pieces; ++at) {
        found.push_back(
            length_of(owned(Indices{extent}, std::vector<DimCut>{{0, pieces, at, 1}})[0]));
    }
    return found;
}

TEST(FsdpOwned, cuts_as_torch_chunk_does) {
    EXPECT_EQ(lengths(4, 3), (Indices{2, 2, 0}));
    EXPECT_EQ(lengths(1, 2), (Indices{1, 0}));
    EXPECT_EQ(lengths(9, 4), (Indices{3, 3, 3, 0}));
    EXPECT_EQ(lengths(0, 2), (Indices{0, 0}));
    EXPECT_EQ(lengths(8, 1), (Indices{8}));
}

TEST(FsdpOwned, agrees_with_the_plain_rule) {
    std::mt19937 random(20);
    const auto below = [&](std::size_t n) { return random() % n; };
    for (int trial = 0; trial < 3000; ++trial) {
        std::vector<Index> shape(below(4));
        for (Index& extent : shape) {
            extent = static_cast<Index>(below(3) == 0 ? below(3) : below(40));
        }
        std::vector<DimCut> cuts(shape.empty() ? 0 : below(4));
        for (DimCut& cut : cuts) {
            cut.dim = below(shape.size());
            cut.pieces = static_cast<Index>(1 + below(6));
            cut.coordinate = static_cast<Index>(below(static_cast<std::size_t>(cut.pieces)));
            cut.groups = static_cast<Index>(below(2) == 0 ? 1 : 1 + below(8));
        }
        const auto expected = plain_owned(shape, cuts);
        const auto found = owned(shape, cuts);
        ASSERT_EQ(found.size(), expected.size());
        for (std::size_t k = 0; k < found.size(); ++k) {
            ASSERT_EQ(listed(found[k]), expected[k]) << "trial " << trial << ", dimension " << k;
        }
    }
}

// All ranks of a mesh hold every element once: strided shards undo the order of the others.
TEST(FsdpOwned, ranks_hold_each_element_once) {
    for (const Index extent : {1, 7, 12, 101}) {
        std::vector<int> count(static_cast<std::size_t>(extent), 0);
        for (Index fsdp = 0; fsdp < 3; ++fsdp) {
            for (Index tp = 0; tp < 2; ++tp) {
                const std::vector<DimCut> cuts = {{0, 3, fsdp, 2}, {0, 2, tp, 1}};
                for (const Index i : listed(owned(Indices{extent}, cuts)[0])) {
                    ++count[static_cast<std::size_t>(i)];
                }
            }
        }
        EXPECT_EQ(std::count(count.begin(), count.end(), 1), extent);
    }
}

TEST(FsdpOwned, is_bounded) {
    const Index huge = Index{1} << 60;
    EXPECT_EQ(owned(Indices{huge}, std::vector<DimCut>{{0, huge, huge - 1, 1}})[0],
              (Runs{{huge - 1, 1}}));
    const Index last = std::numeric_limits<Index>::max();
    EXPECT_TRUE(owned(Indices{5}, std::vector<DimCut>{{0, last, last - 1, last}})[0].empty());
    expect_error(ErrorCode::unsupported, "into 1000000 parts", [] {
        owned(Indices{1000000}, std::vector<DimCut>{{0, 2, 0, 1000000}});
    });
}

// Every element of a local tensor under its global index, whatever the strides.
TEST(FsdpPieces, keep_the_order_of_the_local_tensor) {
    StoredTensor local;
    local.element_offset = 5;
    local.shape = {3, 4};
    local.strides = {1, 10};
    const std::vector<Runs> runs = {{{2, 2}, {7, 1}}, {{0, 1}, {4, 3}}};
    const Indices rows = listed(runs[0]);
    const Indices columns = listed(runs[1]);
    std::map<std::pair<Index, Index>, Index> at;
    for (const auto& piece : pieces_of(local, runs)) {
        const auto& axes = piece.patch.axes;
        for (Index i = 0; i < axes[0].extent; ++i) {
            for (Index j = 0; j < axes[1].extent; ++j) {
                at[{axes[0].lo + i, axes[1].lo + j}] =
                    piece.patch.offset + i * axes[0].stride + j * axes[1].stride;
            }
        }
    }
    EXPECT_EQ(at.size(), 12U);
    for (Index i = 0; i < 3; ++i) {
        for (Index j = 0; j < 4; ++j) {
            const auto global =
                std::pair(rows[static_cast<std::size_t>(i)], columns[static_cast<std::size_t>(j)]);
            EXPECT_EQ(at.at(global), 5 + i + 10 * j);
        }
    }
    EXPECT_TRUE(pieces_of(local, {{{0, 3}}, {}}).empty());
    StoredTensor scalar;
    scalar.element_offset = 3;
    EXPECT_EQ(pieces_of(scalar, {}).at(0).patch.offset, 3);
}

}  // namespace
}  // namespace shardweld::formats::fsdp
