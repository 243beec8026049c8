#include "convert.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>

#include "shardweld/error.hpp"

#include "kernels.hpp"
#include "scalar.hpp"

namespace shardweld::numeric {

namespace {

/// Elements that pass through fp32 at a time: small enough for the innermost cache.
constexpr std::size_t kBlockElements = 1024;

bool is_basic(DType dtype) {
    return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::f16 ||
           dtype == DType::bf16;
}

bool is_float8(DType dtype) {
    return dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::f8_e4m3fnuz ||
           dtype == DType::f8_e5m2fnuz;
}

/// A NaN keeps its sign.
float value_of_e4m3(std::uint32_t bits) {
    return std::bit_cast<float>(f32_from_e4m3(bits) | (bits & 0x80U) << 24U);
}

/// E4M3 and E5M2 without infinities and negative zero ("fnuz", arXiv:2206.02915): the bias is one
/// more, a zero with a sign is the only NaN.
float value_of_fnuz(std::uint32_t bits, int n_mantissa) {
    if (bits == 0x80U) {
        return std::bit_cast<float>(kF32Infinity | kF32Quiet);
    }
    const int bias = 1 << (6 - n_mantissa);
    const int exponent = static_cast<int>((bits & 0x7FU) >> static_cast<unsigned>(n_mantissa));
    const int mantissa = static_cast<int>(bits & ((1U << static_cast<unsigned>(n_mantissa)) - 1U));
    const int hidden = exponent == 0 ? 0 : 1 << n_mantissa;
    const float magnitude = std::ldexp(static_cast<float>(hidden + mantissa),
                                       std::max(exponent, 1) - bias - n_mantissa);
    return bits > 0x80U ? -magnitude : magnitude;
}

using Float8Table = std::array<float, 256>;

template <typename F>
Float8Table table_of(F&& value_of) {
    Float8Table table{};
    for (std::uint32_t bits = 0; bits < table.size(); ++bits) {
        table[bits] = value_of(bits);
    }
    return table;
}

const Float8Table& float8_table(DType dtype) {
    static const Float8Table e4m3 = table_of(value_of_e4m3);
    // E5M2 is the upper byte of an f16.
    static const Float8Table e5m2 = table_of([](std::uint32_t bits) {
        return std::bit_cast<float>(f32_from_f16(static_cast<std::uint16_t>(bits << 8U)));
    });
    static const Float8Table e4m3fnuz =
        table_of([](std::uint32_t bits) { return value_of_fnuz(bits, 3); });
    static const Float8Table e5m2fnuz =
        table_of([](std::uint32_t bits) { return value_of_fnuz(bits, 2); });
    switch (dtype) {
        case DType::f8_e4m3:
            return e4m3;
        case DType::f8_e4m3fnuz:
            return e4m3fnuz;
        case DType::f8_e5m2fnuz:
            return e5m2fnuz;
        default:
            return e5m2;
    }
}

void float8_to_f32(DType from, const std::byte* src, std::byte* dst, std::size_t n) {
    const Float8Table& table = float8_table(from);
    for (std::size_t i = 0; i < n; ++i) {
        std::memcpy(dst + i * sizeof(float), &table[std::to_integer<std::size_t>(src[i])],
                    sizeof(float));
    }
}

/// The kernel that makes fp32 of `from`; nullptr where there is nothing to make. `of_doubles`: the
/// one that rounds to nearest when that is the result, to odd when another rounding follows.
Kernel to_f32(const Kernels& kernels, DType from, Kernel of_doubles) {
    if (from == DType::f16) {
        return kernels.f16_to_f32;
    }
    if (from == DType::bf16) {
        return kernels.bf16_to_f32;
    }
    return from == DType::f64 ? of_doubles : nullptr;
}

Kernel from_f32(const Kernels& kernels, DType to) {
    if (to == DType::f16) {
        return kernels.f32_to_f16;
    }
    if (to == DType::bf16) {
        return kernels.f32_to_bf16;
    }
    return to == DType::f64 ? kernels.f32_to_f64 : nullptr;
}

void load_f32(const Kernels& kernels, DType from, Kernel of_doubles, ByteView src, std::byte* dst) {
    const std::size_t n = src.size() / size_of(from);
    if (is_float8(from)) {
        float8_to_f32(from, src.data(), dst, n);
    } else if (const Kernel kernel = to_f32(kernels, from, of_doubles)) {
        kernel(src.data(), dst, n);
    } else {
        std::memcpy(dst, src.data(), src.size());
    }
}

/// By way of fp32, which holds every value of the narrower types exactly.
void convert_in_blocks(const Kernels& kernels, DType from, ByteView src, DType to, std::byte* dst) {
    const Kernel second = from_f32(kernels, to);
    const std::size_t n = src.size() / size_of(from);
    std::array<std::byte, kBlockElements * sizeof(float)> block{};
    for (std::size_t lo = 0; lo < n; lo += kBlockElements) {
        const std::size_t count = std::min(kBlockElements, n - lo);
        load_f32(kernels, from, kernels.f64_to_f32_odd,
                 src.subspan(lo * size_of(from), count * size_of(from)), block.data());
        second(block.data(), dst + lo * size_of(to), count);
    }
}

template <typename Float>
void add_to(std::byte* values, std::size_t n, float constant) {
    for (std::size_t i = 0; i < n; ++i) {
        Float value = 0;
        std::memcpy(&value, values + i * sizeof(Float), sizeof(Float));
        value += static_cast<Float>(constant);
        std::memcpy(values + i * sizeof(Float), &value, sizeof(Float));
    }
}

std::string name(DType dtype) {
    return torch_name(dtype);
}

void require_whole_elements(DType dtype, std::size_t bytes) {
    if (bytes % size_of(dtype) != 0) {
        throw Error(ErrorCode::internal, std::to_string(bytes) + " bytes hold no whole number of " +
                                             name(dtype) + " elements");
    }
}

}  // namespace

bool can_convert(DType from, DType to) {
    return from == to || ((is_basic(from) || is_float8(from)) && is_basic(to));
}

void convert_with(const Kernels& kernels, DType from, ByteView src, DType to, ByteSpan dst) {
    if (!can_convert(from, to)) {
        throw Error(ErrorCode::unsupported,
                    "cannot cast " + name(from) + " to " + name(to) +
                        "; casts go to float32, float64, float16 or bfloat16 "
                        "from these and from 8-bit floats");
    }
    require_whole_elements(from, src.size());
    if (dst.size() != src.size() / size_of(from) * size_of(to)) {
        throw Error(ErrorCode::internal, "cast of " + std::to_string(src.size()) + " bytes of " +
                                             name(from) + " into " + std::to_string(dst.size()) +
                                             " bytes of " + name(to));
    }
    if (src.empty()) {
        return;
    }
    if (from == to) {
        std::memcpy(dst.data(), src.data(), src.size());
    } else if (to == DType::f32) {
        load_f32(kernels, from, kernels.f64_to_f32, src, dst.data());
    } else if (from == DType::f32) {
        from_f32(kernels, to)(src.data(), dst.data(), src.size() / sizeof(float));
    } else {
        convert_in_blocks(kernels, from, src, to, dst.data());
    }
}

void add_constant_with(const Kernels& kernels, DType dtype, ByteSpan values, float constant) {
    if (!is_basic(dtype)) {
        throw Error(ErrorCode::unsupported, "cannot add a constant to " + name(dtype) +
                                                " elements; only to float32, float64, float16 and "
                                                "bfloat16");
    }
    require_whole_elements(dtype, values.size());
    if (dtype == DType::f64) {
        add_to<double>(values.data(), values.size() / sizeof(double), constant);
        return;
    }
    if (dtype == DType::f32) {
        add_to<float>(values.data(), values.size() / sizeof(float), constant);
        return;
    }
    const std::size_t n = values.size() / size_of(dtype);
    std::array<std::byte, kBlockElements * sizeof(float)> block{};
    for (std::size_t lo = 0; lo < n; lo += kBlockElements) {
        const std::size_t count = std::min(kBlockElements, n - lo);
        const auto part = values.subspan(lo * size_of(dtype), count * size_of(dtype));
        load_f32(kernels, dtype, kernels.f64_to_f32, part, block.data());
        add_to<float>(block.data(), count, constant);
        from_f32(kernels, dtype)(block.data(), part.data(), count);
    }
}

void convert(DType from, ByteView src, DType to, ByteSpan dst) {
    convert_with(best_kernels(), from, src, to, dst);
}

void add_constant(DType dtype, ByteSpan values, float constant) {
    add_constant_with(best_kernels(), dtype, values, constant);
}

void add_and_convert(DType from, ByteView src, float constant, DType to, ByteSpan dst) {
    const std::size_t from_size = size_of(from);
    const std::size_t to_size = size_of(to);
    if (from_size < to_size) {
        convert(from, src, to, dst);
        add_constant(to, dst, constant);
        return;
    }
    std::array<std::byte, 4096> part{};
    const std::size_t step = part.size() / from_size;
    for (std::size_t at = 0, n = src.size() / from_size; at < n; at += step) {
        const std::size_t count = std::min(step, n - at);
        const auto sum = std::span(part).first(count * from_size);
        std::ranges::copy(src.subspan(at * from_size, count * from_size), sum.begin());
        add_constant(from, sum, constant);
        convert(from, sum, to, dst.subspan(at * to_size, count * to_size));
    }
}

}  // namespace shardweld::numeric
