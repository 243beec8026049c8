// Folded slices against the whole matrix computed at once: whatever the cuts, the memory and the
// way the weights are stored, the bits are the same.
#include "execute/factors.hpp"

#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

using plan::Fold;
using plan::Matrix;

constexpr Bytes kHeader = 24;  // anything in front of the factors

/// A weight, its factors, and what folding has to give.
struct Example {
    Index n_rows, n_cols, rank;
    bool is_turned;  ///< stored [n_in, n_out]
    std::vector<float> weight, a, b, gains;
    std::string file;

    Example(Index rows, Index cols, Index r, bool turned)
        : n_rows(rows), n_cols(cols), rank(r), is_turned(turned) {
        std::mt19937 random(static_cast<unsigned>(rows * 1000 + cols * 10 + r));
        std::normal_distribution<float> normal;
        const auto fill = [&](std::vector<float>& values, Index n) {
            values.resize(static_cast<std::size_t>(n));
            for (float& value : values) {
                value = normal(random);
            }
        };
        fill(weight, rows * cols);
        fill(a, rank * (turned ? rows : cols));
        fill(b, rank * (turned ? cols : rows));
        fill(gains, turned ? cols : rows);
        file.resize(kHeader, 'h');
        for (const auto* part : {&a, &b, &gains}) {
            file.append(reinterpret_cast<const char*>(part->data()), part->size() * sizeof(float));
        }
    }

    [[nodiscard]] Fold fold(bool is_normalised) const {
        const Bytes at_a = kHeader;
        const Bytes at_b = at_a + a.size() * sizeof(float);
        Fold fold;
        fold.n_rows = n_rows;
        fold.n_cols = n_cols;
        fold.rank = rank;
        fold.scale = 2.5;
        fold.left = is_turned ? Matrix{at_a, 1, n_rows} : Matrix{at_b, rank, 1};
        fold.right = is_turned ? Matrix{at_b, 1, rank} : Matrix{at_a, n_cols, 1};
        fold.magnitudes = at_b + b.size() * sizeof(float);
        fold.norm = !is_normalised ? Fold::Norm::none
                    : is_turned    ? Fold::Norm::columns
                                   : Fold::Norm::rows;
        return fold;
    }

    [[nodiscard]] std::vector<float> expected(bool is_normalised) const {
        std::vector<float> result;
        for (Index i = 0; i < n_rows; ++i) {
            for (Index j = 0; j < n_cols; ++j) {
                const Index out = is_turned ? j : i;
                const Index in = is_turned ? i : j;
                const Index n_in = is_turned ? n_rows : n_cols;
                float sum = 0;
                for (Index k = 0; k < rank; ++k) {
                    sum = std::fma(b[static_cast<std::size_t>(out * rank + k)],
                                   a[static_cast<std::size_t>(k * n_in + in)], sum);
                }
                volatile float delta = 2.5F * sum;
                volatile float value = weight[static_cast<std::size_t>(i * n_cols + j)] + delta;
                volatile float scaled = value * gains[static_cast<std::size_t>(out)];
                result.push_back(is_normalised ? float{scaled} : float{value});
            }
        }
        return result;
    }
};

plan::Plan plan_of(const Example& example, bool is_normalised, Bytes memory) {
    plan::Plan plan;
    plan::Target target;
    target.name = "w";
    target.shape = {example.n_rows, example.n_cols};
    target.fold = example.fold(is_normalised);
    plan.targets.push_back(target);
    plan.limits.fold = memory;
    return plan;
}

std::vector<float> folded(const Example& example, bool is_normalised, Bytes memory, Index slice) {
    const test::TemporaryDirectory place;
    const auto path = place.put("factors", example.file);
    const plan::Plan plan = plan_of(example, is_normalised, memory);
    Factors factors(plan, path);
    std::vector<float> result(example.weight.size());
    const auto volume = static_cast<Index>(example.weight.size());
    for (Index begin = 0; begin < volume; begin += slice) {
        const Index end = std::min(begin + slice, volume);
        const auto at = static_cast<std::size_t>(begin);
        const auto n = static_cast<std::size_t>(end - begin);
        factors.fold(0, begin, end, std::as_bytes(std::span(example.weight).subspan(at, n)),
                     std::as_writable_bytes(std::span(result).subspan(at, n)));
    }
    return result;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(Factors, GiveTheSameBitsForEveryCutAndMemory) {
    for (const bool is_turned : {false, true}) {
        for (const auto& [rows, cols, rank] :
             {std::tuple<Index, Index, Index>{7, 11, 3}, {13, 40, 1}, {5, 1, 4}, {1, 9, 2}}) {
            const Example example(rows, cols, rank, is_turned);
            for (const bool is_normalised : {false, true}) {
                const std::vector<float> expected = example.expected(is_normalised);
                // 256 bytes: eight elements an eighth, so that one row's columns come in parts.
                for (const Bytes memory : {Bytes{256}, Bytes{1000}, Bytes{1} << 20U}) {
                    for (const Index slice : {Index{1}, Index{5}, Index{23}, Index{10'000}}) {
                        EXPECT_TRUE(
                            same_bits(folded(example, is_normalised, memory, slice), expected))
                            << rows << "x" << cols << " rank " << rank << " turned " << is_turned
                            << " normalised " << is_normalised << " memory " << memory << " slice "
                            << slice;
                    }
                }
            }
        }
    }
}

TEST(Factors, AWrittenTypeIsRoundedToOnce) {
    const Example example(6, 10, 2, false);
    const test::TemporaryDirectory place;
    const auto path = place.put("factors", example.file);
    plan::Plan plan = plan_of(example, false, 4096);
    plan.targets[0].dtype = DType::f64;
    Factors factors(plan, path);
    std::vector<double> wide(60);
    factors.fold(0, 0, 60, std::as_bytes(std::span(example.weight)),
                 std::as_writable_bytes(std::span(wide)));
    const std::vector<float> expected = example.expected(false);
    EXPECT_TRUE(std::equal(wide.begin(), wide.end(), expected.begin()));
}

// A bias has no left factor: s * bias is added.
TEST(Factors, WithoutALeftFactorAddTheRightOne) {
    const test::TemporaryDirectory place;
    const std::vector<float> bias{1, -2, 3};
    const auto path = place.put(
        "factors", std::string(reinterpret_cast<const char*>(bias.data()), 3 * sizeof(float)));
    plan::Plan plan;
    plan::Target target;
    target.shape = {3};
    target.fold = Fold{1, 1, 3, 1, 0.5, std::nullopt, {0, 3, 1}, Fold::Norm::none, 0};
    plan.targets.push_back(target);
    plan.limits.fold = 1024;
    Factors factors(plan, path);
    const std::vector<float> stored{10, 20, 30};
    std::vector<float> out(3);
    factors.fold(0, 0, 3, std::as_bytes(std::span(stored)), std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(out, (std::vector<float>{10.5F, 19, 31.5F}));
}

TEST(Factors, ARankBeyondTheMemoryIsRefused) {
    const Example example(2, 2, 30, false);
    EXPECT_EQ(test::error_text([&] { (void)folded(example, false, 256, 4); }),
              "unsupported: the adapter's rank 30 for w needs more memory than --memory_limit "
              "leaves; raise --memory_limit");
}

}  // namespace
}  // namespace shardweld::execute
