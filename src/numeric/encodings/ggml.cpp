// GGML's blocks of 32 values, bit for bit those of gguf-py 0.19 (quants.py): an F16 scale, of some
// types an F16 minimum, then codes. Quotients are those of the fp32 scale; only the stored one is
// F16. Zero blocks have the scale's sign that gguf-py gives them; of zeros of both signs the last
// is the minimum. In gguf-py that is so where no value lies between them; else numpy takes a late
// one, another one with other vector instructions.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "numeric/coder.hpp"
#include "numeric/convert.hpp"
#include "numeric/ggml_blocks.hpp"
#include "numeric/instruction_sets.hpp"
#include "shardweld/error.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

constexpr std::size_t kValues = 32;
constexpr std::size_t kHalf = kValues / 2;
constexpr std::size_t kF16Bytes = 2;

using Codes = std::array<std::uint8_t, kValues>;

/// Stores an F16; false where it is infinite.
SHARDWELD_LOOP bool store_f16(float value, std::byte*& out) {
    const std::uint16_t half = f16_from_f32(std::bit_cast<std::uint32_t>(value));
    std::memcpy(out, &half, kF16Bytes);
    out += kF16Bytes;
    return (half & 0x7FFFU) != 0x7C00U;
}

SHARDWELD_LOOP float take_f16(const std::byte*& stored) {
    std::uint16_t half = 0;
    std::memcpy(&half, stored, kF16Bytes);
    stored += kF16Bytes;
    return std::bit_cast<float>(f32_from_f16(half));
}

SHARDWELD_LOOP std::uint32_t magnitude_bits(float value) {
    return std::bit_cast<std::uint32_t>(value) & kF32Magnitude;
}

SHARDWELD_LOOP std::uint32_t largest_bits(const float* x) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < kValues; ++i) {
        largest = std::max(largest, magnitude_bits(x[i]));
    }
    return largest;
}

/// 0 where the reciprocal is no number: the block reads as zeros then.
SHARDWELD_LOOP float reciprocal(float step) {
    const float inverse = 1.0F / step;
    return magnitude_bits(inverse) < kF32Infinity ? inverse : 0.0F;
}

/// Integers in the order of the floats' values, -0 before 0; the same twice is the float again.
SHARDWELD_LOOP std::int32_t ordered(std::int32_t bits) {
    return bits ^ (bits >> 31 & std::bit_cast<std::int32_t>(kF32Magnitude));
}

/// The smallest and the largest value.
SHARDWELD_LOOP std::pair<float, float> extremes(const float* x) {
    std::int32_t least = std::numeric_limits<std::int32_t>::max();
    std::int32_t most = std::numeric_limits<std::int32_t>::min();
    for (std::size_t i = 0; i < kValues; ++i) {
        const std::int32_t key = ordered(std::bit_cast<std::int32_t>(x[i]));
        least = std::min(least, key);
        most = std::max(most, key);
    }
    return {std::bit_cast<float>(ordered(least)), std::bit_cast<float>(ordered(most))};
}

/// The first of the largest magnitudes, with its sign, which is the scale's.
SHARDWELD_LOOP float first_largest(const float* x) {
    const auto [least, most] = extremes(x);
    if (most != -least) {
        return most > -least ? most : least;
    }
    std::size_t i = 0;
    while (x[i] != most && x[i] != least) {
        ++i;
    }
    return x[i];
}

/// The last of the smallest values, of which zeros have either sign.
SHARDWELD_LOOP float last_smallest(const float* x, float least) {
    std::size_t i = kValues - 1;
    while (least == 0 && x[i] != 0) {
        --i;
    }
    return least == 0 ? x[i] : least;
}

/// Codes of `kBits`, of value code * step, less half of all steps or plus the block's minimum.
template <unsigned kBits, bool kHasMinimum>
struct Nibbles {
    static constexpr int kTop = (1 << kBits) - 1;
    static constexpr int kZero = kHasMinimum ? 0 : 1 << (kBits - 1);
    static constexpr Bytes kBytes =
        (kHasMinimum ? 2 : 1) * kF16Bytes + (kBits == 5 ? sizeof(std::uint32_t) : 0) + kHalf;

    SHARDWELD_LOOP static bool encode(const float* x, std::byte* out) {
        float low = 0;
        float step = 0;
        if constexpr (kHasMinimum) {
            const auto [least, most] = extremes(x);
            low = last_smallest(x, least);
            step = (most - low) / static_cast<float>(kTop);
        } else {
            step = first_largest(x) / static_cast<float>(-kZero);
        }
        bool is_finite = store_f16(step, out);
        if constexpr (kHasMinimum) {
            is_finite = store_f16(low, out) && is_finite;
        }
        const float factor = reciprocal(step);
        Codes codes;  // not initialised
        for (std::size_t i = 0; i < kValues; ++i) {
            const auto whole =
                static_cast<int>((x[i] - low) * factor + (static_cast<float>(kZero) + 0.5F));
            codes[i] = static_cast<std::uint8_t>(whole < kTop ? whole : kTop);
        }
        pack(codes, out);
        return is_finite;
    }

    /// The fifth bits in front, then low halves: values i and i + 16 share a byte.
    SHARDWELD_LOOP static void pack(const Codes& codes, std::byte* out) {
        if constexpr (kBits == 5) {
            std::uint32_t high = 0;
            for (std::size_t i = 0; i < kValues; ++i) {
                high |= static_cast<std::uint32_t>(codes[i] >> 4U) << i;
            }
            std::memcpy(out, &high, sizeof(high));
            out += sizeof(high);
        }
        for (std::size_t i = 0; i < kHalf; ++i) {
            out[i] = static_cast<std::byte>((codes[i] & 15U) |
                                            static_cast<unsigned>(codes[i + kHalf] << 4U));
        }
    }

    SHARDWELD_LOOP static Codes unpacked(const std::byte* stored) {
        Codes codes;  // not initialised
        std::uint32_t high = 0;
        if constexpr (kBits == 5) {
            std::memcpy(&high, stored, sizeof(high));
            stored += sizeof(high);
        }
        // Each loop has one operation: GCC makes vector code of no others that are as short.
        for (std::size_t i = 0; i < kHalf; ++i) {
            codes[i] = std::to_integer<std::uint8_t>(stored[i] & std::byte{15});
        }
        for (std::size_t i = 0; i < kHalf; ++i) {
            codes[i + kHalf] = std::to_integer<std::uint8_t>(stored[i] >> 4);
        }
        if constexpr (kBits == 5) {
            for (std::size_t i = 0; i < kValues; ++i) {
                codes[i] = static_cast<std::uint8_t>(codes[i] | (high >> i & 1U) << 4U);
            }
        }
        return codes;
    }

    SHARDWELD_LOOP static float decode(const std::byte* stored, float* x) {
        const float step = take_f16(stored);
        const float low = kHasMinimum ? take_f16(stored) : 0.0F;
        const Codes codes = unpacked(stored);
        for (std::size_t i = 0; i < kValues; ++i) {
            const float value = static_cast<float>(static_cast<int>(codes[i]) - kZero) * step;
            x[i] = kHasMinimum ? value + low : value;
        }
        return kHasMinimum ? std::numeric_limits<float>::infinity()
                           : std::fabs(step) * static_cast<float>(kZero);
    }
};

struct Bytes8 {
    static constexpr float kTop = 127;
    static constexpr Bytes kBytes = kF16Bytes + kValues;

    /// Half away from zero: with the number below a half no sum is rounded up to the next whole one
    /// but that of a half.
    SHARDWELD_LOOP static bool encode(const float* x, std::byte* out) {
        const float step = std::bit_cast<float>(largest_bits(x)) / kTop;
        const bool is_finite = store_f16(step, out);
        const float factor = reciprocal(step);
        for (std::size_t i = 0; i < kValues; ++i) {
            const float product = x[i] * factor;
            const auto whole = static_cast<int>(product + std::copysign(0x1.FFFFFEp-2F, product));
            out[i] = static_cast<std::byte>(whole);
        }
        return is_finite;
    }

    SHARDWELD_LOOP static float decode(const std::byte* stored, float* x) {
        const float step = take_f16(stored);
        for (std::size_t i = 0; i < kValues; ++i) {
            const auto code = std::to_integer<std::uint8_t>(stored[i]);
            x[i] = static_cast<float>(static_cast<std::int8_t>(code)) * step;
        }
        return step * kTop;
    }
};

template <typename Type>
SHARDWELD_LOOP bool encode_loop(const float* x, std::size_t n_blocks, std::byte* out) {
    bool is_finite = true;
    for (std::size_t at = 0; at < n_blocks; ++at) {
        is_finite = Type::encode(x + at * kValues, out + at * Type::kBytes) && is_finite;
    }
    return is_finite;
}

template <typename Type>
SHARDWELD_LOOP void decode_loop(const std::byte* stored, std::size_t n_blocks, float* x,
                                float* most) {
    for (std::size_t at = 0; at < n_blocks; ++at) {
        most[at] = Type::decode(stored + at * Type::kBytes, x + at * kValues);
    }
}

template <typename Type>
constexpr BlockCoder kCoderOf{loop_of<encode_loop<Type>>, loop_of<decode_loop<Type>>};

// Numbers: GGMLQuantizationType and LlamaFileType of gguf-py 0.19, constants.py.
template <typename Type>
constexpr EncodingFacts blocks(std::string_view name, std::uint32_t type, std::uint32_t file_type) {
    return {.name = name,
            .tile_columns = kValues,
            .blocks = &kCoderOf<Type>,
            .block_bytes = Type::kBytes,
            .ggml_type = type,
            .ggml_file_type = file_type};
}

constexpr EncodingFacts floats(std::string_view name, DType dtype, Bytes bytes, std::uint32_t type,
                               std::uint32_t file_type) {
    return {.name = name,
            .tile_columns = 1,
            .codes = dtype,
            .block_bytes = bytes,
            .ggml_type = type,
            .ggml_file_type = file_type};
}

constexpr std::array kGgmlRows = {
    blocks<Bytes8>("gguf:q8_0", 8, 7),
    blocks<Nibbles<5, true>>("gguf:q5_1", 7, 9),
    blocks<Nibbles<5, false>>("gguf:q5_0", 6, 8),
    blocks<Nibbles<4, true>>("gguf:q4_1", 3, 3),
    blocks<Nibbles<4, false>>("gguf:q4_0", 2, 2),
    floats("gguf:f16", DType::f16, 2, 1, 1),
    floats("gguf:bf16", DType::bf16, 2, 30, 32),
    floats("gguf:f32", DType::f32, 4, 0, 0),
};

/// Rows of blocks, one after another.
class BlockRows {
  public:
    explicit BlockRows(const QuantisedRows& rows)
        : rows_(rows),
          facts_(facts_of(rows.encoding)),
          coder_(facts_.blocks),
          n_columns_(as_size(rows.n_columns)),
          n_rows_(as_size(rows.n_rows)),
          row_bytes_(as_size(facts_.code_columns(rows.n_columns)) * size_of(facts_.codes)) {}

    void require(std::size_t value_bytes, std::size_t block_bytes) const {
        if (value_bytes % std::max<std::size_t>(n_rows_ * n_columns_, 1) != 0 ||
            block_bytes != n_rows_ * row_bytes_ || rows_.n_columns % facts_.tile_columns != 0) {
            throw Error(ErrorCode::internal, "blocks that do not fit their rows");
        }
    }

    void encode(const std::vector<float>& row, ByteSpan out) const {
        if (coder_ == nullptr) {
            convert(DType::f32, std::as_bytes(std::span(row)), facts_.codes, out);
            return;
        }
        if (!coder_->encode()(row.data(), row.size() / kValues, out.data())) {
            throw Error(
                ErrorCode::unsupported,
                "a value is too large for this type of blocks, whose scales are F16",
                "use gguf:bf16 or gguf:f32: does the model hold values like this on purpose?");
        }
    }

    /// Largest magnitudes by block; none of plain floats.
    void decode(ByteView stored, std::vector<float>& row, std::vector<float>& most) const {
        if (coder_ == nullptr) {
            convert(facts_.codes, stored, DType::f32, std::as_writable_bytes(std::span(row)));
            most.assign(row.size() / kValues + 1, std::numeric_limits<float>::infinity());
            return;
        }
        most.resize(row.size() / kValues);
        coder_->decode()(stored.data(), most.size(), row.data(), most.data());
    }

    [[nodiscard]] ByteView values_of(ByteView all, std::size_t row) const {
        const std::size_t bytes = n_columns_ * size_of(rows_.weight);
        return all.subspan(row * bytes, bytes);
    }
    template <typename Byte>
    [[nodiscard]] std::span<Byte> blocks_of(std::span<Byte> all, std::size_t row) const {
        return all.subspan(row * row_bytes_, row_bytes_);
    }
    [[nodiscard]] std::size_t n_rows() const { return n_rows_; }
    [[nodiscard]] std::vector<float> row() const { return std::vector<float>(n_columns_); }

  private:
    const QuantisedRows& rows_;
    const EncodingFacts& facts_;
    const BlockCoder* coder_;  ///< null: plain floats
    std::size_t n_columns_, n_rows_, row_bytes_;
};

}  // namespace

const std::span<const EncodingFacts> encodings::ggml{kGgmlRows};

void encode_blocks(const QuantisedRows& rows, ByteView values, ByteSpan blocks) {
    const BlockRows all(rows);
    all.require(values.size(), blocks.size());
    std::vector<float> row = all.row();
    for (std::size_t r = 0; r < all.n_rows(); ++r) {
        convert(rows.weight, all.values_of(values, r), DType::f32,
                std::as_writable_bytes(std::span(row)));
        require_finite(best_quantise_kernels().largest(row.data(), row.size()));
        all.encode(row, all.blocks_of(blocks, r));
    }
}

void decode_blocks(const QuantisedRows& rows, ByteView blocks, ByteSpan values) {
    const BlockRows all(rows);
    all.require(values.size(), blocks.size());
    std::vector<float> row = all.row();
    std::vector<float> most;
    const std::size_t bytes = row.size() * size_of(DType::bf16);
    for (std::size_t r = 0; r < all.n_rows(); ++r) {
        all.decode(all.blocks_of(blocks, r), row, most);
        convert(DType::f32, std::as_bytes(std::span(row)), DType::bf16,
                values.subspan(r * bytes, bytes));
    }
}

Quality quality_of_blocks(const QuantisedRows& rows, Index first_row, ByteView values,
                          ByteView blocks) {
    const BlockRows all(rows);
    all.require(values.size(), blocks.size());
    std::vector<float> row = all.row();
    std::vector<float> read = all.row();
    std::vector<float> most;
    const std::vector<float> ones(row.size() / kValues + 1, 1.0F);
    std::vector<double> squares;
    Quality found;
    for (std::size_t r = 0; r < all.n_rows(); ++r) {
        convert(rows.weight, all.values_of(values, r), DType::f32,
                std::as_writable_bytes(std::span(row)));
        all.decode(all.blocks_of(blocks, r), read, most);
        squares.assign(2 * most.size(), 0);
        best_quantise_kernels().compare(row.data(), read.data(), ones.data(), most.data(), kValues,
                                        row.size(), squares.data(), &found);
        for (std::size_t begin = 0; begin < row.size(); begin += kValues) {
            const double* tile = &squares[begin / kValues * 2];
            found.add_tile(tile[0], tile[1], first_row + static_cast<Index>(r),
                           static_cast<Index>(begin));
        }
    }
    return found;
}

}  // namespace shardweld::numeric
