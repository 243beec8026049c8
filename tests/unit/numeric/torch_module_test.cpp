// Our casts against libtorch's: the same bits wherever the result is a number.

#include "numeric/torch_module.hpp"

#include <gtest/gtest.h>

#include "numeric/compare.hpp"
#include "shardweld/error.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

class TorchOracle : public testing::Test {
  protected:
    void SetUp() override {
#ifndef SHARDWELD_TORCH_MODULE
        GTEST_SKIP() << "built without libtorch: casts are NOT compared with libtorch's";
#endif
    }

    static const TorchModule& torch() {
#ifdef SHARDWELD_TORCH_MODULE
        static const TorchModule module = TorchModule::load(SHARDWELD_TORCH_MODULE);
#else
        static const TorchModule module = TorchModule::load_installed();
#endif
        return module;
    }
};

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
void expect_as_torch(const TorchModule& torch, DType from, const std::vector<From>& src, DType to) {
    std::vector<To> ours(src.size());
    std::vector<To> theirs(src.size());
    convert(from, std::as_bytes(std::span(src)), to, std::as_writable_bytes(std::span(ours)));
    torch.convert(from, std::as_bytes(std::span(src)), to,
                  std::as_writable_bytes(std::span(theirs)));
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

TEST_F(TorchOracle, agrees_on_all_16_bit_patterns) {
    const auto patterns = all_16_bit_patterns();
    for (const DType from : {DType::f16, DType::bf16}) {
        expect_as_torch<std::uint32_t>(torch(), from, patterns, DType::f32);
        expect_as_torch<std::uint64_t>(torch(), from, patterns, DType::f64);
    }
    expect_as_torch<std::uint16_t>(torch(), DType::f16, patterns, DType::bf16);
    expect_as_torch<std::uint16_t>(torch(), DType::bf16, patterns, DType::f16);
}

TEST_F(TorchOracle, agrees_on_ties_subnormals_and_boundaries_of_fp32) {
    const auto samples = critical_f32();
    expect_as_torch<std::uint16_t>(torch(), DType::f32, samples, DType::bf16);
    expect_as_torch<std::uint16_t>(torch(), DType::f32, samples, DType::f16);
    expect_as_torch<std::uint64_t>(torch(), DType::f32, samples, DType::f64);
}

TEST_F(TorchOracle, agrees_on_a_spread_of_fp32) {
    const auto samples = spread_f32(10);
    expect_as_torch<std::uint16_t>(torch(), DType::f32, samples, DType::bf16);
    expect_as_torch<std::uint16_t>(torch(), DType::f32, samples, DType::f16);
}

// To the 16-bit types libtorch goes by way of fp32 and rounds twice: only fp64 to fp32 is the same.
TEST_F(TorchOracle, agrees_on_fp64_to_fp32) {
    std::vector<std::uint64_t> samples;
    for (const auto bits : spread_f32(12)) {
        const auto exact =
            std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(bits)));
        for (const std::uint64_t offset : {0UL, 1UL, 0x10000000UL, 0x10000001UL, 0x0FFFFFFFUL}) {
            samples.push_back(exact + offset);
        }
    }
    expect_as_torch<std::uint32_t>(torch(), DType::f64, samples, DType::f32);
}

TEST_F(TorchOracle, compares_within_a_tolerance) {
    const std::vector<float> a{1.0F, 2.0F, 3.0F};
    const std::vector<float> b{1.0F, 2.0F, 3.001F};
    const auto bytes = [](const std::vector<float>& values) {
        return std::as_bytes(std::span(values));
    };
    EXPECT_TRUE(torch().all_close(DType::f32, bytes(a), bytes(a), {0, 0}));
    EXPECT_FALSE(torch().all_close(DType::f32, bytes(a), bytes(b), {1e-5, 1e-8}));
    EXPECT_TRUE(torch().all_close(DType::f32, bytes(a), bytes(b), {0, 0.01}));
    EXPECT_TRUE(torch().all_close(DType::f32, bytes(a), bytes(b), {0.01, 0}));
}

/// Whether torch and we agree on one pair of values.
template <typename T>
void expect_same_closeness(const TorchModule& torch, DType dtype, T a, T b, Tolerance tolerance) {
    const auto one = [](const T& value) { return std::as_bytes(std::span(&value, 1)); };
    EXPECT_EQ(compare(dtype, one(a), one(b), tolerance).n_different == 0,
              torch.all_close(dtype, one(a), one(b), tolerance))
        << torch_name(dtype) << " " << std::hex << a << " and " << b;
}

// fp64, where torch rounds as we do; the narrower types are rounded by torch on the way, so their
// pairs stay clear of the bound.
TEST_F(TorchOracle, agrees_on_what_is_close) {
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
                expect_same_closeness(torch(), DType::f64, a, b, tolerance);
            }
        }
    }
    const std::vector<std::uint16_t> halves{0x0000, 0x8000, 0x3C00, 0x3C01, 0x3F80, 0x3F81,
                                            0x7C00, 0x7E00, 0x7F80, 0xFF80, 0x7FC0, 0x4000};
    for (const DType dtype : {DType::f16, DType::bf16}) {
        for (const auto a : halves) {
            for (const auto b : halves) {
                expect_same_closeness(torch(), dtype, a, b, {0, 0});
                expect_same_closeness(torch(), dtype, a, b, {1e-6, 1e-6});
            }
        }
    }
}

TEST_F(TorchOracle, tells_its_version) {
    // "1.13.0": a digit, a dot, more.
    EXPECT_EQ(torch().version().find_first_of("0123456789"), 0U) << torch().version();
    EXPECT_NE(torch().version().find('.'), std::string::npos) << torch().version();
}

TEST_F(TorchOracle, takes_the_four_float_types_only) {
    std::vector<std::byte> bytes(8);
    try {
        torch().convert(DType::i64, bytes, DType::f64, bytes);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_STREQ(error.what(),
                     "the libtorch module takes float32, float64, float16 and bfloat16, not int64");
    }
    EXPECT_THROW(torch().convert(DType::f32, bytes, DType::f64, bytes), Error);
    EXPECT_THROW((void)torch().all_close(DType::f32, bytes, std::span(bytes).first(4), {}), Error);
}

std::string text_of_failure(const std::filesystem::path& path) {
    try {
        TorchModule::load(path);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        return error.full_text();
    }
    return "no error";
}

TEST(TorchModule, says_why_a_module_cannot_be_loaded) {
    EXPECT_EQ(text_of_failure("/nonexistent/shardweld_torch.so"),
              "cannot load the libtorch module /nonexistent/shardweld_torch.so: "
              "/nonexistent/shardweld_torch.so: cannot "
              "open shared object file: No such file or directory; build shardweld with "
              "-DSHARDWELD_TORCH=ON where "
              "libtorch is installed");
    // A library, but not ours.
    EXPECT_EQ(text_of_failure("libc.so.6"),
              "the libtorch module has no function shardweld_torch_abi; build shardweld with "
              "-DSHARDWELD_TORCH=ON where "
              "libtorch is installed");
}

}  // namespace
}  // namespace shardweld::numeric
