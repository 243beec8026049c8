// Sums of checkpoints against ones written out by hand, in all sets of kernels, and what becomes
// of odd values.
#include "numeric/sum.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "numeric/convert.hpp"
#include "numeric/sum_kernels.hpp"
#include "shardweld/error.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

std::vector<float> numbers(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> values(n);
    for (float& value : values) {
        value = normal(random) * std::ldexp(1.0F, static_cast<int>(random() % 60) - 30);
    }
    return values;
}

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
    std::vector<std::uint32_t> bits;
    for (const float value : values) {
        bits.push_back(std::bit_cast<std::uint32_t>(value));
    }
    return bits;
}

Addend addend(std::span<const float> x, float weight) {
    return {DType::f32, std::as_bytes(x), 0, weight};
}

/// The nearest fp32 of an exact result: the product and the sum of two fp32 are exact in fp64 or
/// rounded there without harm (53 >= 2 * 24 + 2).
float rounded(double value) {
    return static_cast<float>(value);
}

TEST(Sum, ProductsAndSumsAreRoundedOneByOneInTheOrderGiven) {
    for (const std::size_t n : {0U, 1U, 7U, 8U, 9U, 1023U, 1024U, 1025U, 2500U}) {
        const auto x = numbers(n, 1);
        const auto y = numbers(n, 2);
        std::vector<float> expected;
        for (std::size_t i = 0; i < n; ++i) {
            const float first = rounded(double{0.3F} * double{x[i]});
            const float second = rounded(double{0.7F} * double{y[i]});
            expected.push_back(rounded(double{first} + double{second}));
        }
        std::vector<float> sum(n);
        begin_sum(addend(x, 0.3F), sum);
        add_product(addend(y, 0.7F), sum);
        EXPECT_EQ(bits_of(sum), bits_of(expected)) << n;
    }
}

TEST(Sum, DifferencesAreRoundedBeforeTheyAreScaled) {
    const auto base = numbers(2500, 3);
    const auto x = numbers(2500, 4);
    std::vector<float> expected;
    for (std::size_t i = 0; i < base.size(); ++i) {
        const float difference = rounded(double{x[i]} - double{base[i]});
        const float product = rounded(double{0.7F} * double{difference});
        expected.push_back(rounded(double{base[i]} + double{product}));
    }
    std::vector<float> sum = base;
    add_difference(addend(x, 0.7F), base, sum);
    EXPECT_EQ(bits_of(sum), bits_of(expected));
    // One difference needs no second strip: the base may be the sum.
    sum = base;
    add_difference(addend(x, 0.7F), sum, sum);
    EXPECT_EQ(bits_of(sum), bits_of(expected));
}

// A fused multiply-add would keep 2^-24 of the product.
TEST(Sum, NothingIsFused) {
    const float tiny = std::ldexp(1.0F, -12);
    const std::vector<float> x(16, 1 + tiny);
    std::vector<float> sum(16, -(1 + 2 * tiny));
    add_product(addend(x, 1 + tiny), sum);
    EXPECT_EQ(bits_of(sum), bits_of(std::vector<float>(16, 0.0F)));
}

/// Elements with odd ones among them, at an odd address.
struct Unaligned {
    explicit Unaligned(std::span<const std::byte> elements) : bytes_(1) {
        bytes_.insert(bytes_.end(), elements.begin(), elements.end());
    }
    [[nodiscard]] const std::byte* data() const { return bytes_.data() + 1; }

  private:
    std::vector<std::byte> bytes_;
};

void expect_same_bits(const SumKernels::TypeSums& plain, const SumKernels::TypeSums& fast,
                      std::span<const std::byte> elements, std::size_t n) {
    const Unaligned x(elements);
    const auto base = numbers(n, 6);
    std::vector<float> a = base;
    std::vector<float> b = base;
    plain.add(x.data(), 0.1F, a.data(), n);
    fast.add(x.data(), 0.1F, b.data(), n);
    EXPECT_EQ(bits_of(a), bits_of(b));
    plain.add_difference(x.data(), base.data(), 0.9F, a.data(), n);
    fast.add_difference(x.data(), base.data(), 0.9F, b.data(), n);
    EXPECT_EQ(bits_of(a), bits_of(b));
    plain.add_difference(x.data(), a.data(), 0.9F, a.data(), n);
    fast.add_difference(x.data(), b.data(), 0.9F, b.data(), n);
    EXPECT_EQ(bits_of(a), bits_of(b));
    plain.begin(x.data(), 0.3F, a.data(), n);
    fast.begin(x.data(), 0.3F, b.data(), n);
    EXPECT_EQ(bits_of(a), bits_of(b));
}

TEST(Sum, AllSetsOfKernelsGiveTheSameBits) {
    std::vector<const SumKernels*> sets;
    with_each_instruction_set([&] { sets.push_back(&best_sums()); });
    const SumKernels& plain = *sets.front();
    for (const std::size_t n : {9U, 31U, 1003U}) {
        auto x = numbers(n, 5);
        x[3] = kInf;
        x[4] = -0.0F;
        x[5] = std::numeric_limits<float>::denorm_min();
        std::vector<std::uint16_t> bf16(n);
        convert(DType::f32, std::as_bytes(std::span(x)), DType::bf16,
                std::as_writable_bytes(std::span(bf16)));
        x[6] = std::bit_cast<float>(0xFF800001U);
        std::vector<float> settled(n);
        plain.settle(x.data(), settled.data(), n);
        for (const SumKernels* const fast : sets) {
            expect_same_bits(plain.bf16, fast->bf16, std::as_bytes(std::span(bf16)), n);
            std::vector<float> out(n);
            fast->settle(x.data(), out.data(), n);
            EXPECT_EQ(bits_of(out), bits_of(settled));
            std::vector<float> finite = x;
            finite[6] = 1;
            expect_same_bits(plain.f32, fast->f32, std::as_bytes(std::span(finite)), n);
        }
    }
}

TEST(Sum, ElementsAreWhatAMergeToFp32WouldWrite) {
    const std::vector<std::uint16_t> bf16{0x3F80, 0xBF80, 0x0001};
    std::vector<float> sum(3);
    begin_sum({DType::bf16, std::as_bytes(std::span(bf16)), 1, 1}, sum);
    EXPECT_EQ(sum[0], 2.0F);
    EXPECT_EQ(sum[1], 0.0F);
    EXPECT_EQ(sum[2], 1.0F);
    // fp64 is rounded once, after the constant was added.
    const std::vector<double> wide{std::ldexp(1.0, -24) + std::ldexp(1.0, -50)};
    std::vector<float> one(1);
    begin_sum({DType::f64, std::as_bytes(std::span(wide)), 1, 1}, one);
    EXPECT_EQ(one[0], 1 + std::ldexp(1.0F, -23));
}

TEST(Sum, EveryNanBecomesOne) {
    std::vector<float> sum{-kNoNumber, std::bit_cast<float>(0x7F800001U), kInf, -kInf, -0.0F};
    std::vector<float> out(5);
    round_sum(sum, DType::f32, std::as_writable_bytes(std::span(out)));
    EXPECT_EQ(bits_of(out), (std::vector<std::uint32_t>{0x7FC00000, 0x7FC00000, 0x7F800000,
                                                        0xFF800000, 0x80000000}));
    // An infinity less itself.
    std::vector<float> opposite{kInf};
    const std::vector<float> minus{-kInf};
    add_product(addend(minus, 1), opposite);
    std::vector<std::uint16_t> bf16(1);
    round_sum(opposite, DType::bf16, std::as_writable_bytes(std::span(bf16)));
    EXPECT_EQ(bf16[0], 0x7FC0);
}

TEST(Sum, RefusesWhatIsNoFloat) {
    const std::vector<std::uint8_t> bytes{1};
    std::vector<float> sum(1);
    EXPECT_THROW(begin_sum({DType::u8, std::as_bytes(std::span(bytes)), 0, 1}, sum), Error);
    EXPECT_THROW(begin_sum({DType::f8_e4m3, std::as_bytes(std::span(bytes)), 0, 1}, sum), Error);
    EXPECT_THROW(begin_sum({DType::f32, std::as_bytes(std::span(bytes)), 0, 1}, sum), Error);
    std::vector<std::byte> narrow(3);
    EXPECT_THROW(round_sum(sum, DType::f32, narrow), Error);
}

}  // namespace
}  // namespace shardweld::numeric
