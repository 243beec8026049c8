#include "formats/shared/dcp_pieces.hpp"

#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"
#include "support/error_text.hpp"

namespace shardweld::formats {
namespace {

using test::error_text;

using catalogue::Piece;
using catalogue::Tensor;

Piece chunk(const std::vector<Index>& offsets, const std::vector<Index>& sizes) {
    layout::Box box;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        box.push_back({offsets[k], sizes[k]});
    }
    Piece made;
    made.patch = layout::dense(box);
    return made;
}

Tensor tiled(std::vector<Index> shape, std::vector<Piece> chunks) {
    return {"w", DType::f32, std::move(shape), std::move(chunks)};
}

std::string tiling_error(const Tensor& made) {
    return error_text([&] { check_tiling(made); });
}

TEST(DcpTiling, accepts_tilings) {
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({0, 0}, {4, 6})})), "no error");
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({0, 0}, {1, 6}), chunk({1, 0}, {3, 6})})),
              "no error");
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({0, 0}, {4, 2}), chunk({0, 2}, {1, 4}),
                                          chunk({1, 2}, {3, 3}), chunk({1, 5}, {3, 1})})),
              "no error");
    EXPECT_EQ(tiling_error(tiled({}, {chunk({}, {})})), "no error");
    EXPECT_EQ(tiling_error(tiled({0, 5}, {})), "no error");
    EXPECT_EQ(tiling_error(tiled({2}, {chunk({0}, {2}), chunk({2}, {0}), chunk({1}, {0})})),
              "no error");
    // A pinwheel: no straight line cuts it.
    EXPECT_EQ(tiling_error(tiled(
                  {3, 3}, {chunk({0, 0}, {1, 2}), chunk({0, 2}, {2, 1}), chunk({1, 0}, {2, 1}),
                           chunk({1, 1}, {1, 1}), chunk({2, 1}, {1, 2})})),
              "no error");
}

const std::string kHint = "; take another save";

TEST(DcpTiling, names_gaps) {
    EXPECT_EQ(tiling_error(tiled({4, 6}, {})),
              "corrupt: w of shape [4, 6]: no file holds the elements between [0, 0] and "
              "[4, 6]" +
                  kHint);
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({0, 0}, {1, 6}), chunk({2, 0}, {2, 6})})),
              "corrupt: w of shape [4, 6]: no file holds the elements between [1, 0] and "
              "[2, 6]" +
                  kHint);
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({0, 0}, {2, 6}), chunk({2, 0}, {2, 5})})),
              "corrupt: w of shape [4, 6]: no file holds the elements between [2, 5] and "
              "[4, 6]" +
                  kHint);
    EXPECT_EQ(tiling_error(tiled({4, 6}, {chunk({1, 0}, {3, 6})})),
              "corrupt: w of shape [4, 6]: no file holds the elements between [0, 0] and "
              "[1, 6]" +
                  kHint);
    EXPECT_EQ(tiling_error(tiled({}, {})),
              "corrupt: w of shape []: no file holds the elements between [] and []" + kHint);
    EXPECT_EQ(tiling_error(tiled({3, 3}, {chunk({0, 0}, {1, 2}), chunk({0, 2}, {2, 1}),
                                          chunk({1, 0}, {2, 1}), chunk({2, 1}, {1, 2})})),
              "corrupt: w of shape [3, 3]: no file holds the elements between [0, 0] and "
              "[3, 3]" +
                  kHint);
}

TEST(DcpTiling, names_overlaps) {
    const auto overlap = [](const std::string& shape, const std::string& where) {
        return "corrupt: w of shape " + shape + ": parts overlap: " + where + kHint;
    };
    EXPECT_EQ(tiling_error(tiled({4}, {chunk({0}, {2}), chunk({0}, {2}), chunk({2}, {2})})),
              overlap("[4]", "[2] at [0] and [2] at [0]"));
    EXPECT_EQ(tiling_error(tiled({4, 2}, {chunk({0, 0}, {3, 2}), chunk({2, 0}, {2, 2})})),
              overlap("[4, 2]", "[3, 2] at [0, 0] and [2, 2] at [2, 0]"));
    EXPECT_EQ(tiling_error(tiled({}, {chunk({}, {}), chunk({}, {})})),
              overlap("[]", "[] at [] and [] at []"));
}

// Rings of four arms around a centre, none of which a straight line separates.
Tensor pinwheel(Index side) {
    std::vector<Piece> chunks;
    Index lo = 0;
    Index hi = side;
    for (; hi - lo >= 3; ++lo, --hi) {
        const Index arm = hi - lo - 1;
        chunks.push_back(chunk({lo, lo}, {1, arm}));
        chunks.push_back(chunk({lo, hi - 1}, {arm, 1}));
        chunks.push_back(chunk({hi - 1, lo + 1}, {1, arm}));
        chunks.push_back(chunk({lo + 1, lo}, {arm, 1}));
    }
    chunks.push_back(chunk({lo, lo}, {1, 1}));
    return tiled({side, side}, std::move(chunks));
}

// A row, the column left of the rest, a row of the rest, ...
Tensor staircase(Index side) {
    std::vector<Piece> chunks;
    for (Index i = 0; i < side; ++i) {
        chunks.push_back(chunk({i, i}, {1, side - i}));
        if (i + 1 < side) {
            chunks.push_back(chunk({i + 1, i}, {side - i - 1, 1}));
        }
    }
    return tiled({side, side}, std::move(chunks));
}

TEST(DcpTiling, refuses_large_irregular_tilings) {
    const std::string refused = ": too many parts that form no grid" + kHint;
    EXPECT_EQ(tiling_error(pinwheel(301)), "no error");
    EXPECT_EQ(tiling_error(pinwheel(1003)), "unsupported: w of shape [1003, 1003]" + refused);
    EXPECT_EQ(tiling_error(staircase(30)), "no error");
    EXPECT_EQ(tiling_error(staircase(300)), "unsupported: w of shape [300, 300]" + refused);
}

// Random chunks of a small tensor against counting every element.
TEST(DcpTiling, agrees_with_counting) {
    std::mt19937 random(99);
    int good = 0;
    for (int round = 0; round < 20000; ++round) {
        const std::vector<Index> shape = {1 + static_cast<Index>(random() % 4),
                                          1 + static_cast<Index>(random() % 4),
                                          1 + static_cast<Index>(random() % 2)};
        std::vector<Piece> chunks;
        std::vector<int> counts(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]), 0);
        const auto place = [&](const std::vector<Index>& lo, const std::vector<Index>& size) {
            for (Index x = lo[0]; x < lo[0] + size[0]; ++x) {
                for (Index y = lo[1]; y < lo[1] + size[1]; ++y) {
                    for (Index z = lo[2]; z < lo[2] + size[2]; ++z) {
                        ++counts[static_cast<std::size_t>((x * shape[1] + y) * shape[2] + z)];
                    }
                }
            }
            chunks.push_back(chunk(lo, size));
        };
        const bool is_filled = random() % 2 == 0;
        for (int i = 0; i < 6; ++i) {
            std::vector<Index> lo;
            std::vector<Index> size;
            for (const Index extent : shape) {
                lo.push_back(static_cast<Index>(random() % static_cast<unsigned>(extent)));
                size.push_back(
                    1 + static_cast<Index>(random() % static_cast<unsigned>(extent - lo.back())));
            }
            const auto before = counts;
            place(lo, size);
            if (is_filled && *std::max_element(counts.begin(), counts.end()) > 1) {
                counts = before;
                chunks.pop_back();
            }
        }
        for (std::size_t i = 0; is_filled && i < counts.size(); ++i) {
            if (counts[i] == 0) {
                const auto at = static_cast<Index>(i);
                place({at / shape[2] / shape[1], at / shape[2] % shape[1], at % shape[2]},
                      {1, 1, 1});
            }
        }
        std::shuffle(chunks.begin(), chunks.end(), random);
        const bool is_tiled = std::set<int>(counts.begin(), counts.end()) == std::set<int>{1};
        good += is_tiled ? 1 : 0;
        ASSERT_EQ(tiling_error(tiled(shape, chunks)) == "no error", is_tiled) << "round " << round;
    }
    EXPECT_GT(good, 9000);
    EXPECT_LT(good, 15000);
}

}  // namespace
}  // namespace shardweld::formats
