// Censuses against elements looked at one by one.
#include "numeric/census.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

namespace shardweld::numeric {
namespace {

template <typename Word>
std::vector<std::byte> bytes_of(const std::vector<Word>& words) {
    const auto bytes = std::as_bytes(std::span(words));
    return {bytes.begin(), bytes.end()};
}

template <typename Word>
Census census_of(DType dtype, const std::vector<Word>& words) {
    return take_census(dtype, bytes_of(words));
}

// The bits of one, zeros, infinities, NaNs and the largest number of each type.
struct Case {
    DType dtype;
    std::vector<std::uint64_t> numbers;
    std::vector<std::uint64_t> infinities;
    std::vector<std::uint64_t> nans;
    std::uint64_t minus_zero;
};

const std::vector<Case> kCases = {
    {DType::bf16,
     {0x3F80, 0x7F7F, 0x0001, 0xFF7F},
     {0x7F80, 0xFF80},
     {0x7F81, 0x7FC0, 0xFFFF},
     0x8000},
    {DType::f16, {0x3C00, 0x7BFF, 0x8001}, {0x7C00, 0xFC00}, {0x7C01, 0x7E00, 0xFFFF}, 0x8000},
    {DType::f32,
     {0x3F800000, 0x7F7FFFFF, 1},
     {0x7F800000, 0xFF800000},
     {0x7F800001, 0xFFFFFFFF},
     0x80000000},
    {DType::f64,
     {0x3FF0000000000000, 1},
     {0x7FF0000000000000},
     {0x7FF0000000000001, ~0ULL},
     1ULL << 63U},
    {DType::f8_e4m3, {0x38, 0x7E, 0x01}, {}, {0x7F, 0xFF}, 0x80},
    {DType::f8_e5m2, {0x3C, 0x7B}, {0x7C, 0xFC}, {0x7D, 0xFF}, 0x80},
};

void append(std::vector<std::byte>& bytes, DType dtype, std::uint64_t bits) {
    const auto word = std::as_bytes(std::span(&bits, 1));
    bytes.insert(bytes.end(), word.begin(),
                 word.begin() + static_cast<std::ptrdiff_t>(size_of(dtype)));
}

TEST(Census, counts_nans_and_infinities_of_every_type_wherever_they_stand) {
    for (const Case& one : kCases) {
        // Lengths around the parts that are looked at together, and an odd rest.
        for (const std::size_t n : {1U, 7U, 33U, 16384U, 40001U}) {
            std::vector<std::byte> bytes;
            Index n_nan = 0;
            Index n_inf = 0;
            for (std::size_t i = 0; i < n; ++i) {
                const bool is_nan = i % 1009 == 5 || i + 1 == n;
                const bool is_inf = !is_nan && !one.infinities.empty() && i % 997 == 3;
                const auto& from = is_nan ? one.nans : is_inf ? one.infinities : one.numbers;
                append(bytes, one.dtype, from[i % from.size()]);
                n_nan += is_nan ? 1 : 0;
                n_inf += is_inf ? 1 : 0;
            }
            const Census found = take_census(one.dtype, bytes);
            EXPECT_EQ(found.n_elements, static_cast<Index>(n));
            EXPECT_EQ(found.n_nan, n_nan) << safetensors_name(one.dtype) << " " << n;
            EXPECT_EQ(found.n_inf, n_inf) << safetensors_name(one.dtype) << " " << n;
            EXPECT_TRUE(found.has_nonzero);
            EXPECT_EQ(found.is_constant, n == 1);
        }
    }
}

TEST(Census, tells_zeros_from_constants_and_minus_zero_from_zero) {
    for (const Case& one : kCases) {
        std::vector<std::byte> zeros;
        std::vector<std::byte> mixed;
        std::vector<std::byte> ones;
        for (int i = 0; i < 5000; ++i) {
            append(zeros, one.dtype, 0);
            append(mixed, one.dtype, i % 2 == 0 ? 0 : one.minus_zero);
            append(ones, one.dtype, one.numbers[0]);
        }
        const Census zero = take_census(one.dtype, zeros);
        EXPECT_TRUE(zero.is_constant && !zero.has_nonzero) << safetensors_name(one.dtype);
        const Census both = take_census(one.dtype, mixed);
        EXPECT_TRUE(!both.is_constant && !both.has_nonzero) << safetensors_name(one.dtype);
        const Census constant = take_census(one.dtype, ones);
        EXPECT_TRUE(constant.is_constant && constant.has_nonzero) << safetensors_name(one.dtype);
        append(ones, one.dtype, 0);
        EXPECT_FALSE(take_census(one.dtype, ones).is_constant) << safetensors_name(one.dtype);
    }
}

TEST(Census, takes_a_zero_with_a_sign_for_the_only_nan_of_fnuz_types) {
    for (const DType dtype : {DType::f8_e4m3fnuz, DType::f8_e5m2fnuz}) {
        EXPECT_TRUE(is_counted(dtype));
        const auto found = census_of<std::uint8_t>(dtype, {0x00, 0x7F, 0x80, 0xFF, 0x80});
        EXPECT_EQ(found.n_nan, 2);
        EXPECT_EQ(found.n_inf, 0);
        EXPECT_TRUE(found.has_nonzero && !found.is_constant);
        EXPECT_FALSE(census_of<std::uint8_t>(dtype, {0x00, 0x00}).has_nonzero);
    }
}

TEST(Census, of_parts_is_that_of_the_whole_in_any_order) {
    const std::vector<std::uint16_t> values{0x3F80, 0x3F80, 0x7FC0, 0x7F80, 0, 0x3F80};
    const Census whole = census_of(DType::bf16, values);
    for (std::size_t cut = 0; cut <= values.size(); ++cut) {
        const auto middle = values.begin() + static_cast<std::ptrdiff_t>(cut);
        const Census a = census_of<std::uint16_t>(DType::bf16, {values.begin(), middle});
        const Census b = census_of<std::uint16_t>(DType::bf16, {middle, values.end()});
        Census forward = a;
        forward.add(b);
        Census backward = b;
        backward.add(a);
        for (Census* sum : {&forward, &backward}) {
            sum->bits = whole.bits;
            EXPECT_EQ(*sum, whole) << cut;
        }
    }
    // Two parts of one value each: one value only where it is the same.
    Census ones = census_of<std::uint16_t>(DType::bf16, {1, 1});
    ones.add(census_of<std::uint16_t>(DType::bf16, {1}));
    EXPECT_TRUE(ones.is_constant);
    ones.add(census_of<std::uint16_t>(DType::bf16, {2, 2}));
    EXPECT_FALSE(ones.is_constant);
}

TEST(Census, looks_at_floats_only) {
    EXPECT_TRUE(is_counted(DType::f8_e8m0));
    EXPECT_EQ(census_of<std::uint8_t>(DType::f8_e8m0, {0xFF, 0x7F}).n_nan, 1);
    EXPECT_FALSE(is_counted(DType::i32));
    EXPECT_FALSE(is_counted(DType::boolean));
    EXPECT_FALSE(is_counted(DType::c64));
    EXPECT_THROW((void)census_of<std::uint8_t>(DType::i8, {1}), Error);
    EXPECT_THROW((void)census_of<std::uint8_t>(DType::f32, {1, 2, 3}), Error);
}

}  // namespace
}  // namespace shardweld::numeric
