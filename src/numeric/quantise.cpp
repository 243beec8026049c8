// The codes of each encoding, and matrices walked through tile by tile to make them.
#include "quantise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "shardweld/error.hpp"

#include "convert.hpp"
#include "ggml_blocks.hpp"
#include "row_places.hpp"

namespace shardweld::numeric {

namespace {

// FP8 by blocks and by rows: E4M3FN codes. Sources: transformers 5.23 finegrained_fp8.py,
// compressed-tensors 0.20 quantization/utils/helpers.py.

constexpr float kLargestE4m3 = 448;
// Below 448 / FLT_MAX the factor overflows, zeros would become NaN.
constexpr float kTiny = 0x1p-119F;

/// "_FP8_MAX / tensor" in torch is the reciprocal times 448: two roundings.
float block_factor(float largest) {
    return largest < kTiny ? 1.0F : 1.0F / largest * kLargestE4m3;
}

float store_block_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const float factor = block_factor(largest);
    store_value(DType::f32, 1.0F / factor, stored);
    return factor;
}

float store_e8m0_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const float inverse = std::max(1.0F / block_factor(largest), 0x1p-126F);
    const auto bits = std::bit_cast<std::uint32_t>(inverse);
    const std::uint32_t exponent = (bits + 0x7FFFFFU) >> 23U;  // of the power of two at or above it
    *stored = static_cast<std::byte>(exponent);
    return 1.0F / power_of_two(exponent);
}

float store_row_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    return store_scale(rows, largest, kLargestE4m3, stored);
}

void encode_product(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                    std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e4m3_of_product(values.data(), operand, codes, values.size());
}

void encode_quotient(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                     std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e4m3_of_quotient(values.data(), operand, codes, values.size());
}

float f32_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return load_value(DType::f32, stored);
}

float e8m0_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return power_of_two(std::to_integer<std::uint32_t>(*stored));
}

float weight_step(const QuantisedRows& rows, const std::byte* stored) {
    return load_value(rows.weight, stored);
}

void decode_e4m3(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                 std::size_t n) {
    kernels.of_e4m3(codes, values, n);
}

const Coder& fp8_coder(Encoding encoding) {
    static constexpr Coder kBlock{store_block_scale, encode_product, f32_step, decode_e4m3,
                                  kLargestE4m3};
    static constexpr Coder kPowers{store_e8m0_scale, encode_product, e8m0_step, decode_e4m3,
                                   kLargestE4m3};
    static constexpr Coder kCompressed{store_row_scale, encode_quotient, weight_step, decode_e4m3,
                                       kLargestE4m3};
    return encoding == Encoding::fp8_block         ? kBlock
           : encoding == Encoding::fp8_block_ue8m0 ? kPowers
                                                   : kCompressed;
}

// FP4: E2M1 codes of NVFP4, of MXFP4 and of gpt-oss. Sources: compressed-tensors 0.20
// (quantization/utils/mxfp4_utils.py, helpers.py), triton_kernels' downcast_to_mxfp.

constexpr float kLargestE2m1 = 6;
constexpr std::uint32_t kMostExponent = 252;  // 6 * 2^(253 - 127) is infinite

float store_nvfp4_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    const float local = rounded_to(rows.weight, largest / kLargestE2m1);
    const std::uint32_t code = E4m3::from_f32(std::bit_cast<std::uint32_t>(rows.global * local));
    constexpr std::uint32_t kEighth = 0x20;
    *stored = static_cast<std::byte>(code == 0 ? kEighth : code);
    return e4m3_value(*stored) / rows.global;
}

float nvfp4_step(const QuantisedRows& rows, const std::byte* stored) {
    return e4m3_value(*stored) / rows.global;
}

/// The exponent of the largest value, one up from a mantissa of 1.75; two below it, so that 4 is
/// the largest power of two among the codes.
float store_mx_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const std::uint32_t exponent = (std::bit_cast<std::uint32_t>(largest) + 0x200000U) >> 23U;
    const std::uint32_t byte = std::clamp<std::uint32_t>(exponent, 2, kMostExponent + 2) - 2;
    *stored = static_cast<std::byte>(byte);
    return power_of_two(byte);
}

float mx_step(const QuantisedRows& /*rows*/, const std::byte* stored) {
    return power_of_two(std::to_integer<std::uint32_t>(*stored));
}

/// Negative quotients that the weight's type rounds to zero lose their sign.
float rounds_to_zero(DType weight) {
    return weight == DType::bf16 ? 0x1p-134F : weight == DType::f16 ? 0x1p-25F : 0.0F;
}

void encode_nvfp4(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                  std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_quotient(values.data(), operand, 0.0F, codes, values.size());
}

void encode_mx(const QuantisedRows& rows, const QuantiseKernels& kernels,
               std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_quotient(values.data(), operand, rounds_to_zero(rows.weight), codes,
                             values.size());
}

/// 2^ceil(log2(largest / 6)): never clips.
float store_gptoss_scale(const QuantisedRows& /*rows*/, float largest, std::byte* stored) {
    const auto bits = std::bit_cast<std::uint32_t>(largest / kLargestE2m1);
    const std::uint32_t byte = (bits + 0x7FFFFFU) >> 23U;
    *stored = static_cast<std::byte>(byte);
    return byte == 0 ? 0.0F : std::ldexp(1.0F, 127 - static_cast<int>(byte));
}

void encode_gptoss(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                   std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.e2m1_of_product(values.data(), operand, codes, values.size());
}

void decode_e2m1(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                 std::size_t n) {
    kernels.of_e2m1(codes, values, n);
}

const Coder& fp4_coder(Encoding encoding) {
    static constexpr Coder kNvidia{store_nvfp4_scale, encode_nvfp4, nvfp4_step, decode_e2m1,
                                   kLargestE2m1};
    static constexpr Coder kMicroscaling{store_mx_scale, encode_mx, mx_step, decode_e2m1,
                                         kLargestE2m1};
    static constexpr Coder kGptoss{store_gptoss_scale, encode_gptoss, mx_step, decode_e2m1,
                                   kLargestE2m1};
    return encoding == Encoding::nvfp4a16 ? kNvidia
           : encoding == Encoding::mxfp4  ? kMicroscaling
                                          : kGptoss;
}

// Integers of 8 and 4 bits, symmetric. Source: compressed-tensors 0.20, quantization/utils and
// compressors/pack_quantized; quotients in fp32, as its GPU kernels divide.

constexpr float kHalf8 = 128;
constexpr float kHalf4 = 8;

/// Half of the range of codes, largest less smallest.
template <const float& kHalf>
float store_integer_scale(const QuantisedRows& rows, float largest, std::byte* stored) {
    return store_scale(rows, largest, kHalf - 0.5F, stored);
}

template <const float& kHalf>
void encode_integer(const QuantisedRows& /*rows*/, const QuantiseKernels& kernels,
                    std::span<const float> values, float operand, std::uint8_t* codes) {
    kernels.integer_of_quotient(values.data(), operand, kHalf, codes, values.size());
}

float integer_step(const QuantisedRows& rows, const std::byte* stored) {
    return load_value(rows.weight, stored);
}

template <const float& kHalf>
void decode_integer(const QuantiseKernels& kernels, const std::uint8_t* codes, float* values,
                    std::size_t n) {
    kernels.of_integer(codes, kHalf, values, n);
}

const Coder& integer_coder(Encoding encoding) {
    static constexpr Coder kEight{store_integer_scale<kHalf8>, encode_integer<kHalf8>, integer_step,
                                  decode_integer<kHalf8>, kHalf8 - 1};
    static constexpr Coder kFour{store_integer_scale<kHalf4>, encode_integer<kHalf4>, integer_step,
                                 decode_integer<kHalf4>, kHalf4 - 1};
    return facts_of(encoding).code_bits == 4 ? kFour : kEight;
}

}  // namespace

float nvfp4_global(float largest, DType weight) {
    constexpr float kRange = 448 * kLargestE2m1;
    const float tiny = weight == DType::f16 ? 0x1p-14F : 0x1p-126F;
    const float reciprocal = rounded_to(weight, 1.0F / std::max(largest, tiny));
    const float global = rounded_to(weight, reciprocal * kRange);
    return std::isfinite(global) ? global : 1.0F;
}

const Coder& coder_of(Encoding encoding) {
    switch (encoding) {
        case Encoding::fp8_block:
        case Encoding::fp8_block_ue8m0:
        case Encoding::fp8_channel:
        case Encoding::fp8_block_ct:
            return fp8_coder(encoding);
        default:  // integers are packed in i32
            return facts_of(encoding).codes == DType::i32 ? integer_coder(encoding)
                                                          : fp4_coder(encoding);
    }
}

namespace {

class Quantiser {
  public:
    Quantiser(const QuantisedRows& rows, std::span<const std::byte> values)
        : rows_(rows),
          values_(values),
          places_(rows),
          coder_(coder_of(rows.encoding)),
          kernels_(best_quantise_kernels()),
          row_(places_.n_columns),
          operands_(places_.n_tiles),
          // Nibbles of the last, partly filled element are zeros.
          codes_(places_.code_bytes * (places_.facts.code_bits == 4 ? 2 : 1)) {}

    void run(std::span<std::byte> codes, std::span<std::byte> scales) {
        const std::size_t n_rows = count_of(rows_.n_rows);
        for (std::size_t begin = 0; begin < n_rows; begin += places_.tile_rows) {
            const std::size_t end = std::min(begin + places_.tile_rows, n_rows);
            const std::size_t strip = places_.n_tiles * places_.scale_bytes;
            take_scales(begin, end, scales.subspan(begin / places_.tile_rows * strip, strip));
            for (std::size_t row = begin; row < end; ++row) {
                encode(row, codes.subspan(row * places_.code_bytes, places_.code_bytes));
            }
        }
    }

  private:
    void load(std::size_t row) {
        if (row == loaded_) {
            return;
        }
        const std::size_t bytes = places_.n_columns * size_of(rows_.weight);
        convert(rows_.weight, values_.subspan(row * bytes, bytes), DType::f32,
                std::as_writable_bytes(std::span(row_)));
        loaded_ = row;
    }

    /// The scales of the tiles in these rows, and what their values are multiplied with.
    void take_scales(std::size_t begin, std::size_t end, std::span<std::byte> scales) {
        std::vector<std::uint32_t>& largest = largest_;
        largest.assign(places_.n_tiles, 0);
        for (std::size_t row = begin; row < end; ++row) {
            load(row);
            for (std::size_t at = 0; at < places_.n_tiles; ++at) {
                largest[at] =
                    std::max(largest[at],
                             kernels_.largest(row_.data() + at * places_.tile, places_.width(at)));
            }
        }
        for (std::size_t at = 0; at < places_.n_tiles; ++at) {
            require_finite(largest[at]);
            operands_[at] = coder_.scale(rows_, std::bit_cast<float>(largest[at]),
                                         scales.data() + at * places_.scale_bytes);
        }
    }

    void encode(std::size_t row, std::span<std::byte> codes) {
        load(row);
        const bool is_packed = places_.facts.code_bits == 4;
        auto* bytes = reinterpret_cast<std::uint8_t*>(codes.data());
        std::uint8_t* out = is_packed ? codes_.data() : bytes;
        if (!is_packed) {
            std::fill(codes.begin() + static_cast<std::ptrdiff_t>(places_.n_columns), codes.end(),
                      std::byte{0});
        }
        for (std::size_t at = 0; at < places_.n_tiles; ++at) {
            const std::size_t first = at * places_.tile;
            coder_.encode(rows_, kernels_, {row_.data() + first, places_.width(at)}, operands_[at],
                          out + first);
        }
        if (is_packed) {
            kernels_.pack_nibbles(codes_.data(), bytes, codes.size());
        }
    }

    static constexpr std::size_t kNoRow = ~std::size_t{0};

    const QuantisedRows& rows_;
    std::span<const std::byte> values_;
    RowPlaces places_;
    const Coder& coder_;
    const QuantiseKernels& kernels_;
    std::vector<float> row_;
    std::vector<float> operands_;
    std::vector<std::uint8_t> codes_;
    std::vector<std::uint32_t> largest_;
    std::size_t loaded_ = kNoRow;
};

}  // namespace

void require_finite(std::uint32_t largest) {
    if (largest >= kF32Infinity) {
        throw Error(
            ErrorCode::unsupported,
            std::string(largest > kF32Infinity ? "a NaN" : "an infinity") + " cannot be quantised",
            "leave the tensor as it is with --quantize_ignore");
    }
}

void quantise(const QuantisedRows& rows, std::span<const std::byte> values,
              std::span<std::byte> codes, std::span<std::byte> scales) {
    if (facts_of(rows.encoding).is_ggml()) {
        encode_blocks(rows, values, codes);
        return;
    }
    RowPlaces(rows).require(rows, codes.size(), scales.size());
    Quantiser(rows, values).run(codes, scales);
}

float largest_magnitude(DType dtype, std::span<const std::byte> values) {
    constexpr std::size_t kAtOnce = 4096;
    std::vector<float> part(std::min(kAtOnce, values.size() / size_of(dtype)));
    std::uint32_t largest = 0;
    while (!values.empty()) {
        const std::size_t n = std::min(kAtOnce, values.size() / size_of(dtype));
        const auto some = std::span(part).first(n);
        convert(dtype, values.first(n * size_of(dtype)), DType::f32, std::as_writable_bytes(some));
        largest = std::max(largest, best_quantise_kernels().largest(some.data(), n));
        values = values.subspan(n * size_of(dtype));
    }
    return std::bit_cast<float>(largest);
}

}  // namespace shardweld::numeric
