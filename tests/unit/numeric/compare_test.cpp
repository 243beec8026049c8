#include "numeric/compare.hpp"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

template <typename T>
Comparison compare_all(DType dtype, const std::vector<T>& a, const std::vector<T>& b,
                       Tolerance tolerance, Index first = 0) {
    return compare(dtype, std::as_bytes(std::span(a)), std::as_bytes(std::span(b)), tolerance,
                   first);
}

TEST(Compare, finds_nothing_where_bytes_are_equal) {
    const std::vector<float> a{1, kNan, -0.0F, kInfinite};
    EXPECT_EQ(compare_all(DType::f32, a, a, {0, 0}), (Comparison{4, 0, 0, 0, {}, {}}));
}

TEST(Compare, says_how_many_differ_how_far_and_where) {
    const std::vector<double> a{1, 2.5, 4, 8};
    const std::vector<double> b{1, 2, 4.25, 8};
    EXPECT_EQ(compare_all(DType::f64, a, b, {0, 0.3}, 10),
              (Comparison{4, 2, 1, 0, {0.5, 11}, {0.25, 11}}));
    EXPECT_EQ(compare_all(DType::f64, a, b, {0, 0}).n_different, 2);
}

TEST(Compare, takes_the_bound_itself_as_close_and_scales_it_with_the_reference) {
    const std::vector<double> a{3};
    const std::vector<double> b{2};
    EXPECT_EQ(compare_all(DType::f64, a, b, {0, 1}).n_different, 0);
    EXPECT_EQ(compare_all(DType::f64, a, b, {0, std::nextafter(1.0, 0)}).n_different, 1);
    EXPECT_EQ(compare_all(DType::f64, a, b, {0.5, 0}).n_different, 0);
    // 0.4 * 3 would be enough, 0.4 * 2 is not: the second side is the reference.
    EXPECT_EQ(compare_all(DType::f64, a, b, {0.4, 0}).n_different, 1);
    EXPECT_EQ(compare_all(DType::f64, b, a, {0.4, 0}).n_different, 0);
}

TEST(Compare, wants_nans_at_the_same_places) {
    const std::vector<float> a{kNan, 1, kNan};
    const std::vector<float> b{1, kNan, -kNan};
    const Comparison found = compare_all(DType::f32, a, b, {1e9, 1e9});
    EXPECT_EQ(found, (Comparison{3, 3, 2, 2, {kInfinity, 0}, {kInfinity, 0}}));
}

TEST(Compare, wants_infinities_to_be_the_same) {
    const std::vector<float> a{kInfinite, kInfinite, 1, -kInfinite};
    const std::vector<float> b{kInfinite, -kInfinite, kInfinite, 1};
    const Comparison found = compare_all(DType::f32, a, b, {1e9, 1e9});
    EXPECT_EQ(found.n_different, 3);
    EXPECT_EQ(found.n_nan, 0);
    EXPECT_EQ(found.absolute, (Largest{kInfinity, 1}));
}

TEST(Compare, takes_zeros_of_both_signs_as_equal_but_not_their_bits) {
    const std::vector<float> a{0.0F};
    const std::vector<float> b{-0.0F};
    EXPECT_EQ(compare_all(DType::f32, a, b, {0, 0}), (Comparison{1, 1, 0, 0, {}, {}}));
}

TEST(Compare, has_an_infinite_relative_error_against_zero) {
    const std::vector<float> a{0.5F};
    const std::vector<float> b{0.0F};
    EXPECT_EQ(compare_all(DType::f32, a, b, {0, 1}),
              (Comparison{1, 1, 0, 0, {0.5, 0}, {kInfinity, 0}}));
}

TEST(Compare, compares_integers_exactly_at_their_limits) {
    using I64 = std::numeric_limits<std::int64_t>;
    const std::vector<std::int64_t> a{I64::min(), 7, -1};
    const std::vector<std::int64_t> b{I64::max(), 7, 1};
    const Comparison found = compare_all(DType::i64, a, b, {1e30, 1e30});
    EXPECT_EQ(found.n_different, 2);
    EXPECT_EQ(found.absolute, (Largest{std::ldexp(1.0, 64), 0}));
    const std::vector<std::uint8_t> c{0, 255};
    const std::vector<std::uint8_t> d{255, 255};
    EXPECT_EQ(compare_all(DType::u8, c, d, {9, 9}), (Comparison{2, 1, 1, 0, {255, 0}, {1, 0}}));
    EXPECT_EQ(compare_all(DType::boolean, c, d, {9, 9}).n_different, 1);
}

TEST(Compare, knows_8_bit_floats) {
    // E4M3: 0x38 = 1, 0x39 = 1.125, 0x7F = NaN. E8M0: 127 = 1, 128 = 2, 255 = NaN.
    const std::vector<std::uint8_t> a{0x38, 0x7F};
    const std::vector<std::uint8_t> b{0x39, 0xFF};
    EXPECT_EQ(compare_all(DType::f8_e4m3, a, b, {0, 0.125}),
              (Comparison{2, 2, 0, 0, {0.125, 0}, {0.125 / 1.125, 0}}));
    const std::vector<std::uint8_t> c{127, 255};
    const std::vector<std::uint8_t> d{128, 254};
    // E4M3 without negative zero: 0x40 = 1, 0x80 = NaN.
    const std::vector<std::uint8_t> e{0x40, 0x80};
    const std::vector<std::uint8_t> f{0x40, 0x00};
    EXPECT_EQ(compare_all(DType::f8_e4m3fnuz, e, f, {0, 1}).n_nan, 1);
    const Comparison found = compare_all(DType::f8_e8m0, c, d, {0, 1});
    EXPECT_EQ(found.n_different, 1);
    EXPECT_EQ(found.n_nan, 1);
}

TEST(Compare, takes_the_distance_of_complex_numbers) {
    const std::vector<std::complex<float>> a{{3, 4}, {1, 1}};
    const std::vector<std::complex<float>> b{{0, 0}, {1, 1}};
    EXPECT_EQ(compare_all(DType::c64, a, b, {0, 4.9}),
              (Comparison{2, 1, 1, 0, {5, 0}, {kInfinity, 0}}));
}

TEST(Compare, finds_an_element_in_any_block_and_sums_parts_to_the_whole) {
    std::vector<float> a(5000, 1.0F);
    std::vector<float> b = a;
    for (const std::size_t at : {0U, 1023U, 1024U, 4999U}) {
        b[at] = 1.5F + static_cast<float>(at % 2);
    }
    const Comparison whole = compare_all(DType::f32, a, b, {0, 0});
    EXPECT_EQ(whole, (Comparison{5000, 4, 4, 0, {1.5, 1023}, {0.6, 1023}}));
    for (const std::size_t cut : {1U, 1023U, 1024U, 3000U}) {
        const auto bytes = [&](const std::vector<float>& v, std::size_t lo, std::size_t hi) {
            return std::as_bytes(std::span(v)).subspan(lo * 4, (hi - lo) * 4);
        };
        const Comparison first = compare(DType::f32, bytes(a, 0, cut), bytes(b, 0, cut), {0, 0}, 0);
        const Comparison second = compare(DType::f32, bytes(a, cut, 5000), bytes(b, cut, 5000),
                                          {0, 0}, static_cast<Index>(cut));
        Comparison forward = first;
        forward.add(second);
        Comparison backward = second;
        backward.add(first);
        EXPECT_EQ(forward, whole);
        EXPECT_EQ(backward, whole);
    }
}

/// The whole, on every instruction set, against its elements, each compared by itself.
template <typename T>
void expect_sum_of_singles(DType dtype, const std::vector<T>& a, const std::vector<T>& b,
                           Tolerance tolerance) {
    Comparison singles;
    for (std::size_t i = 0; i < a.size(); ++i) {
        singles.add(compare(dtype, std::as_bytes(std::span(a).subspan(i, 1)),
                            std::as_bytes(std::span(b).subspan(i, 1)), tolerance,
                            static_cast<Index>(i)));
    }
    with_each_instruction_set(
        [&] { EXPECT_EQ(compare_all(dtype, a, b, tolerance), singles) << torch_name(dtype); });
}

TEST(Compare, finds_in_blocks_what_it_finds_in_single_elements) {
    // NaNs and infinities stand in some blocks only.
    const std::vector<std::uint16_t> a = all_16_bit_patterns();
    for (const std::size_t step : {1U, 77U, 4096U, 32768U}) {
        std::vector<std::uint16_t> b = a;
        std::ranges::rotate(b, b.begin() + static_cast<std::ptrdiff_t>(step));
        for (const DType dtype : {DType::bf16, DType::f16}) {
            expect_sum_of_singles(dtype, a, b, {0.02, 1e-3});
        }
    }
}

// The largest error is found by products, which are rounded otherwise than the quotient.
TEST(Compare, finds_the_largest_of_errors_that_differ_by_a_rounding) {
    std::mt19937_64 random(1);
    for (const double ratio : {0.3, 1.0, 1e-9, 1e10}) {
        std::vector<double> a, b;
        std::vector<float> c, d;
        for (int i = 0; i < 20'000; ++i) {
            const int exponent = static_cast<int>(random() % 1900) - 1070;
            b.push_back(std::ldexp(static_cast<double>(random() >> 11U), exponent - 53));
            a.push_back(b.back() * ratio + b.back());
            d.push_back(static_cast<float>(std::ldexp(b.back(), -exponent)));
            c.push_back(static_cast<float>(ratio) * d.back() + d.back());
        }
        expect_sum_of_singles(DType::f64, a, b, {ratio, 0});
        expect_sum_of_singles(DType::f32, c, d, {ratio, 1e-30});
    }
}

TEST(Compare, refuses_sizes_that_do_not_fit) {
    const std::vector<std::byte> bytes(8);
    EXPECT_THROW((void)compare(DType::f32, bytes, std::span(bytes).first(4), {}), Error);
    EXPECT_THROW(
        (void)compare(DType::f32, std::span(bytes).first(6), std::span(bytes).first(6), {}), Error);
}

TEST(CommonDtype, is_the_less_precise_float) {
    EXPECT_EQ(common_dtype(DType::f32, DType::bf16), DType::bf16);
    EXPECT_EQ(common_dtype(DType::f16, DType::f64), DType::f16);
    EXPECT_EQ(common_dtype(DType::f16, DType::bf16), DType::bf16);
    EXPECT_EQ(common_dtype(DType::i8, DType::i8), DType::i8);
    EXPECT_EQ(common_dtype(DType::f8_e4m3, DType::bf16), std::nullopt);
    EXPECT_EQ(common_dtype(DType::i32, DType::i64), std::nullopt);
    EXPECT_EQ(common_dtype(DType::i32, DType::f32), std::nullopt);
}

}  // namespace
}  // namespace shardweld::numeric
