// Our casts against libtorch's: the same bits wherever the result is a number.

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#ifdef SHARDWELD_TORCH

#include "numeric/compare.hpp"
#include "numeric/convert.hpp"
#include "support/torch_oracle.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

test::TorchType torch_type(DType dtype) {
    return dtype == DType::f32   ? test::TorchType::f32
           : dtype == DType::f64 ? test::TorchType::f64
           : dtype == DType::f16 ? test::TorchType::f16
                                 : test::TorchType::bf16;
}

template <typename T>
bool torch_all_close(DType dtype, std::span<const T> a, std::span<const T> b, Tolerance tolerance) {
    return test::torch_all_close(torch_type(dtype), a.data(), b.data(),
                                 static_cast<std::int64_t>(a.size()), tolerance.relative,
                                 tolerance.absolute);
}

bool is_nan(std::uint16_t bits, DType dtype) {
    return (bits & 0x7FFFU) > (dtype == DType::f16 ? 0x7C00U : 0x7F80U);
}
bool is_nan(std::uint32_t bits, DType /*dtype*/) {
    return (bits & 0x7FFFFFFFU) > 0x7F800000U;
}
bool is_nan(std::uint64_t bits, DType /*dtype*/) {
    return (bits & 0x7FFFFFFFFFFFFFFFU) > 0x7FF0000000000000U;
}

template <typename To, typename From>
void expect_as_torch(DType from, const std::vector<From>& src, DType to) {
    std::vector<To> ours(src.size());
    std::vector<To> theirs(src.size());
    convert(from, std::as_bytes(std::span(src)), to, std::as_writable_bytes(std::span(ours)));
    test::torch_convert(torch_type(from), src.data(), torch_type(to), theirs.data(),
                        static_cast<std::int64_t>(src.size()));
    std::size_t n_different = 0;
    std::size_t n_numbers = 0;
    for (std::size_t i = 0; i < src.size(); ++i) {
        const bool nan = is_nan(ours[i], to);
        n_numbers += nan ? 0 : 1;
        const bool same = nan ? is_nan(theirs[i], to) : ours[i] == theirs[i];
        if (!same && ++n_different <= 5) {
            ADD_FAILURE() << torch_name(from) << " to " << torch_name(to) << ": " << std::hex
                          << src[i] << " gives " << ours[i] << ", libtorch has " << theirs[i];
        }
    }
    EXPECT_EQ(n_different, 0U) << torch_name(from) << " to " << torch_name(to);
    EXPECT_GT(n_numbers, src.size() / 2);
}

TEST(ConvertTorch, agrees_on_all_16_bit_patterns) {
    const auto patterns = all_16_bit_patterns();
    for (const DType from : {DType::f16, DType::bf16}) {
        expect_as_torch<std::uint32_t>(from, patterns, DType::f32);
        expect_as_torch<std::uint64_t>(from, patterns, DType::f64);
    }
    expect_as_torch<std::uint16_t>(DType::f16, patterns, DType::bf16);
    expect_as_torch<std::uint16_t>(DType::bf16, patterns, DType::f16);
}

TEST(ConvertTorch, agrees_on_ties_subnormals_and_boundaries_of_fp32) {
    const auto samples = critical_f32();
    expect_as_torch<std::uint16_t>(DType::f32, samples, DType::bf16);
    expect_as_torch<std::uint16_t>(DType::f32, samples, DType::f16);
    expect_as_torch<std::uint64_t>(DType::f32, samples, DType::f64);
}

TEST(ConvertTorch, agrees_on_a_spread_of_fp32) {
    const auto samples = spread_f32(10);
    expect_as_torch<std::uint16_t>(DType::f32, samples, DType::bf16);
    expect_as_torch<std::uint16_t>(DType::f32, samples, DType::f16);
}

// To the 16-bit types libtorch goes by way of fp32 and rounds twice: only fp64 to fp32 is the same.
TEST(ConvertTorch, agrees_on_fp64_to_fp32) {
    std::vector<std::uint64_t> samples;
    for (const auto bits : spread_f32(12)) {
        const auto exact =
            std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
        for (const std::uint64_t offset : {0UL, 1UL, 0x10000000UL, 0x10000001UL, 0x0FFFFFFFUL}) {
            samples.push_back(exact + offset);
        }
    }
    expect_as_torch<std::uint32_t>(DType::f64, samples, DType::f32);
}

TEST(ConvertTorch, compares_within_a_tolerance) {
    const std::vector<float> a{1.0F, 2.0F, 3.0F};
    const std::vector<float> b{1.0F, 2.0F, 3.001F};
    const auto is_close = [](const std::vector<float>& x, const std::vector<float>& y,
                             Tolerance tolerance) {
        return torch_all_close<float>(DType::f32, x, y, tolerance);
    };
    EXPECT_TRUE(is_close(a, a, {0, 0}));
    EXPECT_FALSE(is_close(a, b, {1e-5, 1e-8}));
    EXPECT_TRUE(is_close(a, b, {0, 0.01}));
    EXPECT_TRUE(is_close(a, b, {0.01, 0}));
}

/// Whether torch and we agree on one pair of values.
template <typename T>
void expect_same_closeness(DType dtype, T a, T b, Tolerance tolerance) {
    const auto one = [](const T& value) { return std::as_bytes(std::span(&value, 1)); };
    EXPECT_EQ(compare(dtype, one(a), one(b), tolerance).n_different == 0,
              torch_all_close<T>(dtype, {&a, 1}, {&b, 1}, tolerance))
        << torch_name(dtype) << " " << std::hex << a << " and " << b;
}

// fp64, where torch rounds as we do; the narrower types are rounded by torch on the way, so their
// pairs stay clear of the bound.
TEST(ConvertTorch, agrees_on_what_is_close) {
    const std::vector<double> values{0.0,        -0.0,       1.0,
                                     1.0 + 1e-9, 1.0 + 3e-6, -1.0,
                                     2.5e-7,     1e300,      1e300 * (1 + 1e-6),
                                     -1e300,     5e-324,     1e-6,
                                     1.00001,    1234.5,     1234.5012345};
    std::vector<std::uint64_t> bits{0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000,
                                    0xFFF8000000000001};
    for (const double value : values) {
        bits.push_back(std::bit_cast<std::uint64_t>(value));
    }
    for (const auto a : bits) {
        for (const auto b : bits) {
            for (const Tolerance tolerance :
                 {Tolerance{0, 0}, Tolerance{1e-6, 1e-6}, Tolerance{0, 1e-6}, Tolerance{1e-5, 0}}) {
                expect_same_closeness(DType::f64, a, b, tolerance);
            }
        }
    }
    const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x3C00, 0x3C01, 0x3F80, 0x3F81,
                                            0x7C00, 0x7E00, 0x7F80, 0xFF80, 0x7FC0, 0x4000};
    for (const DType dtype : {DType::f16, DType::bf16}) {
        for (const auto a : halves) {
            for (const auto b : halves) {
                expect_same_closeness(dtype, a, b, {0, 0});
                expect_same_closeness(dtype, a, b, {1e-6, 1e-6});
            }
        }
    }
}

}  // namespace
}  // namespace shardweld::numeric

#else

TEST(ConvertTorch, is_left_out) {
    GTEST_SKIP() << "built without libtorch: casts are NOT compared with libtorch's";
}

#endif
