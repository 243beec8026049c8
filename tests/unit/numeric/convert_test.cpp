#include "numeric/convert.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "shardweld/error.hpp"

#include "samples.hpp"

namespace shardweld::numeric {
namespace {

std::uint16_t f32_to_16(DType to, float value) {
    return cast_one<std::uint16_t>(DType::f32, std::bit_cast<std::uint32_t>(value), to);
}

std::uint16_t f64_to_16(DType to, double value) {
    return cast_one<std::uint16_t>(DType::f64, std::bit_cast<std::uint64_t>(value), to);
}

TEST(Convert, takes_floats_among_each_other_and_float8_as_source) {
    for (const DType from : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::f8_e4m3,
                             DType::f8_e5m2, DType::f8_e4m3fnuz, DType::f8_e5m2fnuz}) {
        for (const DType to : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
            EXPECT_TRUE(can_convert(from, to));
        }
    }
    EXPECT_TRUE(can_convert(DType::i64, DType::i64));
    EXPECT_TRUE(can_convert(DType::f8_e8m0, DType::f8_e8m0));
    EXPECT_FALSE(can_convert(DType::f32, DType::f8_e4m3));
    EXPECT_FALSE(can_convert(DType::f8_e5m2, DType::f8_e4m3));
    EXPECT_FALSE(can_convert(DType::f8_e8m0, DType::f32));
    EXPECT_FALSE(can_convert(DType::i32, DType::f32));
    EXPECT_FALSE(can_convert(DType::f32, DType::boolean));
}

TEST(Convert, gives_known_bf16) {
    EXPECT_EQ(f32_to_16(DType::bf16, 1.0F), 0x3F80);
    EXPECT_EQ(f32_to_16(DType::bf16, -0.0F), 0x8000);
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x3F808000U)),
              0x3F80);  // tie to even, down
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x3F818000U)),
              0x3F82);  // tie to even, up
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x3F808001U)), 0x3F81);
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x7F7F7FFFU)), 0x7F7F);
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x7F7F8000U)), 0x7F80);
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x00008001U)), 0x0001);  // subnormal
    EXPECT_EQ(f32_to_16(DType::bf16, -std::numeric_limits<float>::infinity()), 0xFF80);
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0x7F800001U)), 0x7FC0);  // signalling NaN
    EXPECT_EQ(f32_to_16(DType::bf16, std::bit_cast<float>(0xFFFFFFFFU)), 0xFFC0);
}

TEST(Convert, gives_known_f16) {
    EXPECT_EQ(f32_to_16(DType::f16, 1.0F), 0x3C00);
    EXPECT_EQ(f32_to_16(DType::f16, 65504.0F), 0x7BFF);
    EXPECT_EQ(f32_to_16(DType::f16, 65519.996F), 0x7BFF);
    EXPECT_EQ(f32_to_16(DType::f16, 65520.0F), 0x7C00);
    EXPECT_EQ(f32_to_16(DType::f16, 1e30F), 0x7C00);
    EXPECT_EQ(f32_to_16(DType::f16, -std::ldexp(1.0F, -24)), 0x8001);
    EXPECT_EQ(f32_to_16(DType::f16, std::ldexp(1.0F, -25)), 0x0000);  // tie to even
    EXPECT_EQ(f32_to_16(DType::f16, std::ldexp(3.0F, -25)), 0x0002);  // tie to even
    EXPECT_EQ(f32_to_16(DType::f16, std::ldexp(1.0F, -14)), 0x0400);
    EXPECT_EQ(f32_to_16(DType::f16, std::bit_cast<float>(0x387FFFFFU)),
              0x0400);  // just below 2^-14
    EXPECT_EQ(f32_to_16(DType::f16, std::bit_cast<float>(0x7F800001U)), 0x7E00);
    EXPECT_EQ(f32_to_16(DType::f16, std::bit_cast<float>(0xFFC12345U)), 0xFE00);
}

TEST(Convert, rounds_doubles_once) {
    // By way of fp32 each of these would first become a midpoint and then go to even.
    EXPECT_EQ(f64_to_16(DType::bf16, 1.0 + std::ldexp(1.0, -8) + std::ldexp(1.0, -40)), 0x3F81);
    EXPECT_EQ(f64_to_16(DType::bf16, 1.0 + std::ldexp(3.0, -8) - std::ldexp(1.0, -40)), 0x3F81);
    EXPECT_EQ(f64_to_16(DType::f16, 1.0 + std::ldexp(1.0, -11) + std::ldexp(1.0, -40)), 0x3C01);
    EXPECT_EQ(f64_to_16(DType::f16, -1.0 - std::ldexp(1.0, -11) - std::ldexp(1.0, -40)), 0xBC01);
    EXPECT_EQ(f64_to_16(DType::f16, 1.0 + std::ldexp(1.0, -11)), 0x3C00);
    EXPECT_EQ(f64_to_16(DType::f16, 65520.0 - std::ldexp(1.0, -30)), 0x7BFF);
    EXPECT_EQ(f64_to_16(DType::f16, 65520.0), 0x7C00);
    EXPECT_EQ(f64_to_16(DType::bf16, 1e300), 0x7F80);
    EXPECT_EQ(f64_to_16(DType::bf16, -1e-300), 0x8000);
    EXPECT_EQ(f64_to_16(DType::bf16, std::nan("")), 0x7FC0);
}

TEST(Convert, keeps_the_sign_and_the_leading_payload_of_nan_when_widening) {
    EXPECT_EQ(cast_one<std::uint32_t>(DType::f16, std::uint16_t{0x7C01}, DType::f32), 0x7FC02000U);
    EXPECT_EQ(cast_one<std::uint32_t>(DType::f16, std::uint16_t{0xFE03}, DType::f32), 0xFFC06000U);
    EXPECT_EQ(cast_one<std::uint32_t>(DType::bf16, std::uint16_t{0x7F81}, DType::f32), 0x7F810000U);
    EXPECT_EQ(cast_one<std::uint64_t>(DType::bf16, std::uint16_t{0xFF81}, DType::f64),
              0xFFF8200000000000U);
    EXPECT_EQ(cast_one<std::uint64_t>(DType::f32, 0x7F800001U, DType::f64), 0x7FF8000020000000U);
    EXPECT_EQ(cast_one<std::uint32_t>(DType::f64, 0xFFF0000020000000UL, DType::f32), 0xFFC00001U);
    EXPECT_EQ(cast_one<std::uint16_t>(DType::bf16, std::uint16_t{0xFF81}, DType::f16), 0xFE00);
    EXPECT_EQ(cast_one<std::uint16_t>(DType::f16, std::uint16_t{0x7C01}, DType::bf16), 0x7FC0);
}

TEST(Convert, reads_every_e4m3) {
    for (unsigned bits = 0; bits < 256; ++bits) {
        const auto got =
            cast_one<float>(DType::f8_e4m3, static_cast<std::uint8_t>(bits), DType::f32);
        const int exponent = static_cast<int>(bits >> 3U & 15U);
        const int mantissa = static_cast<int>(bits & 7U);
        if ((bits & 0x7FU) == 0x7FU) {
            EXPECT_EQ(std::bit_cast<std::uint32_t>(got), bits == 0x7F ? 0x7FC00000U : 0xFFC00000U);
            continue;
        }
        const double magnitude =
            exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
        EXPECT_EQ(got, bits >= 0x80 ? -magnitude : magnitude) << bits;
        EXPECT_EQ(std::signbit(got), bits >= 0x80) << bits;
        EXPECT_EQ(
            cast_one<std::uint16_t>(DType::f8_e4m3, static_cast<std::uint8_t>(bits), DType::bf16),
            f32_to_16(DType::bf16, got));
    }
    EXPECT_EQ(cast_one<float>(DType::f8_e4m3, std::uint8_t{0x7E}, DType::f32), 448.0F);
}

/// The value of a byte with a bias that is one more than IEEE's, no infinities and one NaN.
double fnuz_value(unsigned bits, int n_mantissa, int bias) {
    const auto scale = 1U << static_cast<unsigned>(n_mantissa);
    const int exponent = static_cast<int>((bits & 0x7FU) / scale);
    const double fraction = static_cast<double>(bits % scale) / scale;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, 1 - bias) : std::ldexp(1 + fraction, exponent - bias);
    return bits > 0x80 ? -magnitude : magnitude;
}

TEST(Convert, reads_every_float8_without_negative_zero) {
    for (const auto& [dtype, n_mantissa, bias] :
         {std::tuple(DType::f8_e4m3fnuz, 3, 8), std::tuple(DType::f8_e5m2fnuz, 2, 16)}) {
        for (unsigned bits = 0; bits < 256; ++bits) {
            const auto byte = static_cast<std::uint8_t>(bits);
            const auto got = cast_one<float>(dtype, byte, DType::f32);
            if (bits == 0x80) {
                EXPECT_EQ(std::bit_cast<std::uint32_t>(got), 0x7FC00000U);
            } else {
                EXPECT_EQ(got, fnuz_value(bits, n_mantissa, bias)) << bits;
                EXPECT_EQ(cast_one<std::uint16_t>(dtype, byte, DType::bf16),
                          f32_to_16(DType::bf16, got));
            }
        }
    }
    EXPECT_EQ(cast_one<float>(DType::f8_e4m3fnuz, std::uint8_t{0x7F}, DType::f32), 240.0F);
    EXPECT_EQ(cast_one<float>(DType::f8_e5m2fnuz, std::uint8_t{0xFF}, DType::f32), -57344.0F);
}

TEST(Convert, reads_every_e5m2) {
    for (unsigned bits = 0; bits < 256; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits << 8U);
        EXPECT_EQ(
            cast_one<std::uint32_t>(DType::f8_e5m2, static_cast<std::uint8_t>(bits), DType::f32),
            cast_one<std::uint32_t>(DType::f16, half, DType::f32));
        const bool is_nan = (bits & 0x7FU) > 0x7CU;
        EXPECT_EQ(
            cast_one<std::uint16_t>(DType::f8_e5m2, static_cast<std::uint8_t>(bits), DType::f16),
            is_nan ? (bits >= 0x80 ? 0xFE00 : 0x7E00) : half);
    }
    EXPECT_EQ(cast_one<double>(DType::f8_e5m2, std::uint8_t{0x7B}, DType::f64), 57344.0);
    EXPECT_EQ(cast_one<double>(DType::f8_e5m2, std::uint8_t{0xFC}, DType::f64),
              -std::numeric_limits<double>::infinity());
}

TEST(Convert, copies_a_type_to_itself_bit_by_bit) {
    // A signalling NaN must not become quiet.
    EXPECT_EQ(cast_one<std::uint32_t>(DType::f32, 0x7F800001U, DType::f32), 0x7F800001U);
    EXPECT_EQ(cast_one<std::uint16_t>(DType::bf16, std::uint16_t{0xFF81}, DType::bf16), 0xFF81);
    EXPECT_EQ(cast_one<std::uint64_t>(DType::i64, 0x123456789ABCDEFUL, DType::i64),
              0x123456789ABCDEFUL);
}

TEST(Convert, refuses_pairs_it_does_not_know) {
    std::vector<std::byte> bytes(8);
    try {
        convert(DType::i32, bytes, DType::bf16, bytes);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_STREQ(error.what(),
                     "cannot cast int32 to bfloat16; casts go to float32, float64, float16 or "
                     "bfloat16 from these and "
                     "from 8-bit floats");
    }
}

TEST(Convert, refuses_sizes_that_do_not_fit) {
    std::vector<std::byte> src(8);
    std::vector<std::byte> dst(6);
    try {
        convert(DType::f32, src, DType::bf16, dst);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::internal);
        EXPECT_STREQ(error.what(), "cast of 8 bytes of float32 into 6 bytes of bfloat16");
    }
    EXPECT_THROW(convert(DType::f32, std::span(src).first(7), DType::bf16, std::span(dst).first(2)),
                 Error);
}

TEST(Convert, takes_no_elements) {
    EXPECT_NO_THROW(convert(DType::f32, {}, DType::bf16, {}));
}

template <typename T>
std::vector<T> plus(DType dtype, std::vector<T> values, float constant) {
    add_constant(dtype, std::as_writable_bytes(std::span(values)), constant);
    return values;
}

TEST(AddConstant, adds_in_each_type) {
    EXPECT_EQ(plus<float>(DType::f32, {0.0F, -1.0F, 2.5F}, 1.0F),
              (std::vector<float>{1.0F, 0.0F, 3.5F}));
    EXPECT_EQ(plus<double>(DType::f64, {0.1, -1.0}, 1.0F), (std::vector<double>{0.1 + 1.0, 0.0}));
    // bf16: 0.0078125 (2^-7) is the last bit at 1; 2^-8 is a tie and goes to even.
    EXPECT_EQ(plus<std::uint16_t>(DType::bf16, {0x3C00, 0x3B80, 0xBF80, 0x7FFF}, 1.0F),
              (std::vector<std::uint16_t>{0x3F81, 0x3F80, 0x0000, 0x7FC0}));
    EXPECT_EQ(plus<std::uint16_t>(DType::f16, {0x1400, 0x1000, 0xBC00}, 1.0F),
              (std::vector<std::uint16_t>{0x3C01, 0x3C00, 0x0000}));
}

TEST(AddConstant, handles_more_than_one_block) {
    const auto sums =
        plus<std::uint16_t>(DType::bf16, std::vector<std::uint16_t>(5003, 0x3F80), 1.0F);
    EXPECT_EQ(sums, std::vector<std::uint16_t>(5003, 0x4000));
}

TEST(AddConstant, refuses_other_types) {
    std::vector<std::byte> bytes(8);
    try {
        add_constant(DType::f8_e4m3, bytes, 1.0F);
        ADD_FAILURE() << "no error";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        EXPECT_STREQ(error.what(),
                     "cannot add a constant to float8_e4m3fn elements; only to float32, float64, "
                     "float16 and bfloat16");
    }
    EXPECT_THROW(add_constant(DType::f32, std::span(bytes).first(7), 1.0F), Error);
}

}  // namespace
}  // namespace shardweld::numeric
