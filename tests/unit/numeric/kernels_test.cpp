// Every set of kernels against the definition of rounding, and against each other bit by bit.
#include "numeric/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

/// The non-negative values of a 16-bit type in order, decoded by its definition; the first value
/// beyond the largest (where infinity would be, were it a number) included.
std::vector<double> magnitudes(int exponent_bits) {
    const int mantissa_bits = 15 - exponent_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int infinity = ((1 << exponent_bits) - 1) << mantissa_bits;
    std::vector<double> values;
    for (int bits = 0; bits <= infinity; ++bits) {
        const int exponent = bits >> mantissa_bits;
        const int mantissa = bits & ((1 << mantissa_bits) - 1);
        values.push_back(exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                       : std::ldexp(mantissa + (1 << mantissa_bits),
                                                    exponent - bias - mantissa_bits));
    }
    return values;
}

/// Nearest value, ties to the even pattern, found by search; NaN: the default one.
std::uint16_t nearest_of(const std::vector<double>& values, double value) {
    const unsigned sign = std::signbit(value) ? 0x8000U : 0U;
    const auto infinity = static_cast<unsigned>(values.size() - 1);
    if (std::isnan(value)) {
        const unsigned quiet = infinity == 0x7C00 ? 0x200U : 0x40U;
        return static_cast<std::uint16_t>(sign | infinity | quiet);
    }
    const double magnitude = std::fabs(value);
    const auto above = std::upper_bound(values.begin(), values.end(), magnitude);
    if (above == values.end()) {
        return static_cast<std::uint16_t>(sign | infinity);
    }
    const auto hi = static_cast<unsigned>(above - values.begin());
    const unsigned lo = hi - 1;
    // The midpoint of two neighbours is exact in a double.
    const double middle = (values[lo] + values[hi]) / 2;
    const bool up = magnitude > middle || (magnitude == middle && hi % 2 == 0);
    return static_cast<std::uint16_t>(sign | (up ? hi : lo));
}

/// The portable ones first.
std::vector<const Kernels*> all_kernels() {
    std::vector<const Kernels*> kernels;
    with_each_instruction_set([&] { kernels.push_back(&best_kernels()); });
    return kernels;
}

template <typename To, typename From>
std::vector<To> cast(const Kernels& kernels, DType from, const std::vector<From>& src, DType to) {
    std::vector<To> result(src.size());
    convert_with(kernels, from, std::as_bytes(std::span(src)), to,
                 std::as_writable_bytes(std::span(result)));
    return result;
}

/// Positions of the first differences, few enough to print.
template <typename T>
std::size_t first_difference(const std::vector<T>& a, const std::vector<T>& b) {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

struct Narrow {
    DType dtype;
    int exponent_bits;
};
constexpr Narrow kNarrow[] = {{DType::bf16, 8}, {DType::f16, 5}};

TEST(Paths, round_fp32_as_defined) {
    const auto samples = critical_f32();
    for (const auto& [to, exponent_bits] : kNarrow) {
        const auto values = magnitudes(exponent_bits);
        std::vector<std::uint16_t> wanted;
        for (const auto bits : samples) {
            wanted.push_back(nearest_of(values, static_cast<double>(std::bit_cast<float>(bits))));
        }
        for (const Kernels* kernels : all_kernels()) {
            const auto got = cast<std::uint16_t>(*kernels, DType::f32, samples, to);
            const std::size_t at = first_difference(got, wanted);
            EXPECT_EQ(at, samples.size())
                << std::hex << samples[at] << " gave " << got[at] << ", not " << wanted[at];
        }
    }
}

/// Doubles around every value and midpoint of a 16-bit type, closer than fp32 can tell.
std::vector<std::uint64_t> critical_f64(const std::vector<double>& values) {
    std::vector<std::uint64_t> samples;
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
        for (const double centre : {values[i], (values[i] + values[i + 1]) / 2}) {
            for (const double relative :
                 {0.0, 0x1p-52, -0x1p-52, 0x1p-30, -0x1p-30, 0x1p-24, -0x1p-24}) {
                const double value = centre + centre * relative;
                samples.push_back(std::bit_cast<std::uint64_t>(value));
                samples.push_back(std::bit_cast<std::uint64_t>(-value));
            }
        }
    }
    for (const double value :
         {1e300, 5e-324, 1e-310, 1e-40, 1e-45, 3.5e38, 65520.0, 65519.99999999999}) {
        samples.push_back(std::bit_cast<std::uint64_t>(value));
        samples.push_back(std::bit_cast<std::uint64_t>(-value));
    }
    for (const std::uint64_t special :
         {0x7FF0000000000000UL, 0x7FF0000000000001UL, 0x7FFFFFFFFFFFFFFFUL, 0x7FF8000000000000UL}) {
        samples.push_back(special);
        samples.push_back(special | 0x8000000000000000UL);
    }
    return samples;
}

TEST(Paths, round_fp64_once_as_defined) {
    for (const auto& [to, exponent_bits] : kNarrow) {
        const auto values = magnitudes(exponent_bits);
        const auto samples = critical_f64(values);
        std::vector<std::uint16_t> wanted;
        for (const auto bits : samples) {
            wanted.push_back(nearest_of(values, std::bit_cast<double>(bits)));
        }
        for (const Kernels* kernels : all_kernels()) {
            const auto got = cast<std::uint16_t>(*kernels, DType::f64, samples, to);
            const std::size_t at = first_difference(got, wanted);
            EXPECT_EQ(at, samples.size())
                << std::hex << samples[at] << " gave " << got[at] << ", not " << wanted[at];
        }
    }
}

TEST(Paths, widen_16_bits_exactly) {
    const auto patterns = all_16_bit_patterns();
    for (const auto& [from, exponent_bits] : kNarrow) {
        const auto values = magnitudes(exponent_bits);
        const auto infinity = values.size() - 1;
        for (const Kernels* kernels : all_kernels()) {
            const auto wide = cast<float>(*kernels, from, patterns, DType::f32);
            const auto wider = cast<double>(*kernels, from, patterns, DType::f64);
            for (std::size_t bits = 0; bits < patterns.size(); ++bits) {
                const std::size_t magnitude = bits & 0x7FFFU;
                const double wanted = magnitude == infinity
                                          ? std::numeric_limits<double>::infinity()
                                      : magnitude > infinity ? std::nan("")
                                                             : values[magnitude];
                ASSERT_EQ(std::signbit(wide[bits]), bits >= 0x8000) << bits;
                ASSERT_EQ(std::signbit(wider[bits]), bits >= 0x8000) << bits;
                ASSERT_TRUE(std::isnan(wanted) ? std::isnan(wide[bits])
                                               : std::fabs(wide[bits]) == wanted)
                    << bits;
                ASSERT_TRUE(std::isnan(wanted) ? std::isnan(wider[bits])
                                               : std::fabs(wider[bits]) == wanted)
                    << bits;
            }
        }
    }
}

template <typename To, typename From>
void expect_same_bits(DType from, const std::vector<From>& samples, DType to) {
    const auto all = all_kernels();
    const auto wanted = cast<To>(*all.front(), from, samples, to);
    for (const Kernels* kernels : all) {
        const auto got = cast<To>(*kernels, from, samples, to);
        const std::size_t at = first_difference(got, wanted);
        EXPECT_EQ(at, samples.size())
            << std::hex << samples[at] << " gave " << got[at] << ", not " << wanted[at];
    }
}

void expect_same_bits_f32(const std::vector<std::uint32_t>& samples) {
    expect_same_bits<std::uint16_t>(DType::f32, samples, DType::bf16);
    expect_same_bits<std::uint16_t>(DType::f32, samples, DType::f16);
    expect_same_bits<std::uint64_t>(DType::f32, samples, DType::f64);
}

TEST(FastPaths, equal_the_portable_ones_on_all_16_bit_patterns) {
    const auto patterns = all_16_bit_patterns();
    expect_same_bits<std::uint32_t>(DType::f16, patterns, DType::f32);
    expect_same_bits<std::uint32_t>(DType::bf16, patterns, DType::f32);
    expect_same_bits<std::uint64_t>(DType::f16, patterns, DType::f64);
    expect_same_bits<std::uint64_t>(DType::bf16, patterns, DType::f64);
    expect_same_bits<std::uint16_t>(DType::f16, patterns, DType::bf16);
    expect_same_bits<std::uint16_t>(DType::bf16, patterns, DType::f16);
}

TEST(FastPaths, equal_the_portable_ones_on_a_spread_of_fp32) {
    expect_same_bits_f32(spread_f32(8));
    expect_same_bits_f32(critical_f32());
}

TEST(FastPaths, equal_the_portable_ones_on_fp64) {
    std::mt19937_64 random(11);
    std::vector<std::uint64_t> samples(1U << 20U);
    for (std::size_t i = 0; i < samples.size(); ++i) {
        // Half of them within the exponents of fp32, where rounding is not trivial.
        samples[i] = random();
        if (i % 2 == 0) {
            samples[i] = (samples[i] & 0x800FFFFFFFFFFFFFU) | ((860 + random() % 300) << 52U);
        }
    }
    for (const auto& narrow : kNarrow) {
        const auto critical = critical_f64(magnitudes(narrow.exponent_bits));
        samples.insert(samples.end(), critical.begin(), critical.end());
    }
    expect_same_bits<std::uint32_t>(DType::f64, samples, DType::f32);
    expect_same_bits<std::uint16_t>(DType::f64, samples, DType::f16);
    expect_same_bits<std::uint16_t>(DType::f64, samples, DType::bf16);
}

/// Minutes: run with --gtest_also_run_disabled_tests.
TEST(FastPaths, DISABLED_equal_the_portable_ones_on_every_fp32) {
    std::vector<std::uint32_t> samples(1U << 24U);
    for (std::uint32_t upper = 0; upper < 256; ++upper) {
        for (std::uint32_t i = 0; i < samples.size(); ++i) {
            samples[i] = (upper << 24U) + i;
        }
        expect_same_bits_f32(samples);
    }
}

/// Casts at odd addresses, for each number of elements, must equal the single casts and touch
/// nothing else.
TEST(Paths, take_any_address_and_count) {
    constexpr DType kTypes[] = {DType::f32,  DType::f64,     DType::f16,
                                DType::bf16, DType::f8_e4m3, DType::f8_e5m2};
    std::mt19937 random(3);
    std::vector<std::byte> src(80 * 8 + 1);
    for (auto& byte : src) {
        byte = static_cast<std::byte>(random());
    }
    for (const Kernels* kernels : all_kernels()) {
        for (const DType from : kTypes) {
            for (const DType to : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
                std::vector<std::byte> single(80 * size_of(to));
                for (std::size_t i = 0; i < 80; ++i) {
                    convert_with(*all_kernels().front(), from,
                                 std::span(src).subspan(1 + i * size_of(from), size_of(from)), to,
                                 std::span(single).subspan(i * size_of(to), size_of(to)));
                }
                for (std::size_t n = 0; n <= 80; ++n) {
                    std::vector<std::byte> dst(1 + n * size_of(to) + 8, std::byte{0x5A});
                    convert_with(*kernels, from, std::span(src).subspan(1, n * size_of(from)), to,
                                 std::span(dst).subspan(1, n * size_of(to)));
                    std::vector<std::byte> wanted(1, std::byte{0x5A});
                    wanted.insert(wanted.end(), single.begin(),
                                  single.begin() + static_cast<std::ptrdiff_t>(n * size_of(to)));
                    wanted.insert(wanted.end(), 8, std::byte{0x5A});
                    ASSERT_EQ(dst, wanted)
                        << torch_name(from) << " to " << torch_name(to) << ", " << n << " elements";
                }
            }
        }
    }
}

}  // namespace
}  // namespace shardweld::numeric
