#include "beginning.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "io/input_file.hpp"

namespace shardweld::formats::deepspeed {

namespace {

constexpr Index kMostElements = 64;

template <typename T>
T element(const Beginning& from, std::size_t at) {
    T value{};
    std::memcpy(&value, from.bytes.data() + at * sizeof(T), sizeof(T));
    return value;
}

/// To the nearest, ties to even.
std::uint16_t bf16_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U);
}

float value_of_f16(std::uint16_t bits) {
    constexpr int kMantissa = 10, kBias = 15;
    const int exponent = bits >> kMantissa & 0x1F;
    const int mantissa = bits & 0x3FF;
    const int whole = exponent == 0 ? mantissa : mantissa | 1 << kMantissa;
    const float size =
        std::ldexp(static_cast<float>(whole), std::max(exponent, 1) - kBias - kMantissa);
    return (bits & 0x8000U) != 0 ? -size : size;
}

bool is_near_f16(float master, std::uint16_t weight) {
    const bool is_finite = (weight & 0x7C00U) != 0x7C00U;
    const float most = std::ldexp(std::abs(master), -11) + std::ldexp(1.0F, -25);
    return !is_finite || std::abs(master - value_of_f16(weight)) <= most;
}

bool rounds_to(float master, const Beginning& weight, std::size_t at) {
    if (std::isnan(master)) {
        return true;
    }
    switch (weight.dtype) {
        case DType::bf16:
            return bf16_of(master) == element<std::uint16_t>(weight, at);
        case DType::f16:
            return is_near_f16(master, element<std::uint16_t>(weight, at));
        case DType::f32:
            return master == element<float>(weight, at);
        default:
            return true;
    }
}

}  // namespace

Beginning beginning_of(const catalogue::Tensor& tensor, const io::InputFile& input) {
    Beginning begin{tensor.dtype, {}};
    const catalogue::Piece& piece = tensor.pieces.front();
    const Index volume = piece.patch.volume();
    if (layout::dense_shape(tensor.shape, piece.patch.offset) == piece.patch && volume > 0) {
        const Bytes size = size_of(tensor.dtype);
        begin.bytes.resize(static_cast<Bytes>(std::min(volume, kMostElements)) * size);
        input.read_at(piece.base + static_cast<Bytes>(piece.patch.offset) * size, begin.bytes);
    }
    return begin;
}

bool rounds_to(const Beginning& master, const Beginning& weight) {
    if (master.dtype != DType::f32) {
        return true;
    }
    const std::size_t n =
        std::min(master.bytes.size() / sizeof(float), weight.bytes.size() / size_of(weight.dtype));
    for (std::size_t at = 0; at < n; ++at) {
        if (!rounds_to(element<float>(master, at), weight, at)) {
            return false;
        }
    }
    return true;
}

}  // namespace shardweld::formats::deepspeed
