// The low-rank update against one written out by hand, for odd sizes and blocks.
#include "numeric/low_rank.hpp"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

struct LowRankCase {
    std::size_t rows, cols, rank;
    std::vector<float> values, left, right;

    LowRankCase(std::size_t n_rows, std::size_t n_cols, std::size_t r, unsigned seed)
        : rows(n_rows), cols(n_cols), rank(r) {
        std::mt19937 random(seed);
        std::normal_distribution<float> normal;
        for (auto* part : {&values, &left, &right}) {
            part->resize(part == &values ? rows * cols : part == &left ? rows * rank : rank * cols);
            for (float& value : *part) {
                value = normal(random) * (random() % 7 == 0 ? 1e-30F : 1.0F);
            }
        }
    }

    [[nodiscard]] LowRankUpdate update(std::vector<float>& into) const {
        return {into.data(), left.data(), right.data(), rows, cols, rank, cols, 2.5F};
    }

    /// Element by element, each rounding in its own volatile.
    [[nodiscard]] std::vector<float> by_hand() const {
        std::vector<float> result = values;
        for (std::size_t i = 0; i < rows; ++i) {
            for (std::size_t j = 0; j < cols; ++j) {
                volatile float sum = 0;
                for (std::size_t k = 0; k < rank; ++k) {
                    sum = std::fma(left[i * rank + k], right[k * cols + j], float{sum});
                }
                volatile float delta = 2.5F * sum;
                volatile float whole = result[i * cols + j] + delta;
                result[i * cols + j] = whole;
            }
        }
        return result;
    }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(LowRank, EqualsTheSumWrittenOutOnEveryInstructionSet) {
    unsigned seed = 1;
    for (const std::size_t rows : {1U, 2U, 5U}) {
        // Ranks of which a strip holds all columns, some of them and none.
        for (const std::size_t cols : {1U, 7U, 8U, 17U, 33U, 70U, 300U}) {
            for (const std::size_t rank : {0U, 1U, 3U, 8U, 17U, 64U, 300U}) {
                const LowRankCase one(rows, cols, rank, seed++);
                const std::vector<float> expected = one.by_hand();
                with_each_instruction_set([&] {
                    std::vector<float> values = one.values;
                    add_low_rank(one.update(values));
                    EXPECT_TRUE(same_bits(values, expected)) << rows << "x" << cols << " r" << rank;
                });
            }
        }
    }
}

// The order of operations is what makes folded weights independent of ranks and slices.
TEST(LowRank, BlocksOfColumnsAndRowsGiveTheSameBits) {
    const LowRankCase one(13, 41, 6, 99);
    const std::vector<float> expected = one.by_hand();
    std::vector<float> got(one.values.size());
    for (const auto& [row, n_rows] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 8}}) {
        for (const auto& [col, n_cols] : {std::pair<std::size_t, std::size_t>{0, 11}, {11, 30}}) {
            std::vector<float> block;
            for (std::size_t i = 0; i < n_rows; ++i) {
                const auto* begin = one.values.data() + (row + i) * one.cols + col;
                block.insert(block.end(), begin, begin + n_cols);
            }
            add_low_rank({block.data(), one.left.data() + row * one.rank, one.right.data() + col,
                          n_rows, n_cols, one.rank, one.cols, 2.5F});
            for (std::size_t i = 0; i < n_rows; ++i) {
                std::memcpy(got.data() + (row + i) * one.cols + col, block.data() + i * n_cols,
                            n_cols * sizeof(float));
            }
        }
    }
    EXPECT_TRUE(same_bits(got, expected));
}

// A plain product and sum would round 1 + 2^-24 away; the fused one keeps it.
TEST(LowRank, ProductsAreNotRoundedBeforeTheyAreAdded) {
    const float tiny = std::ldexp(1.0F, -12);
    std::vector<float> value{0};
    const std::vector<float> left{-1, 1 + tiny};
    const std::vector<float> right{1 + 2 * tiny, 1 + tiny};
    add_low_rank({value.data(), left.data(), right.data(), 1, 1, 2, 1, 1.0F});
    EXPECT_EQ(value[0], tiny * tiny);
}

}  // namespace
}  // namespace shardweld::numeric
