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
#include <vector>

#include "numeric/coder.hpp"
#include "numeric/convert.hpp"
#include "numeric/ggml_blocks.hpp"
#include "shardweld/error.hpp"

#include "registry.hpp"

namespace shardweld::numeric {

namespace {

constexpr std::size_t kValues = 32;
constexpr std::size_t kHalf = kValues / 2;
constexpr std::size_t kF16Bytes = 2;

using Codes = std::array<std::uint8_t, kValues>;

void store_f16(float value, std::byte*& out) {
    const std::uint16_t half = f16_from_f32(std::bit_cast<std::uint32_t>(value));
    if ((half & 0x7FFFU) == 0x7C00U) {
        throw Error(ErrorCode::unsupported,
                    "a value is too large for this type of blocks, whose scales are F16",
                    "use gguf:bf16 or gguf:f32: does the model hold values like this on purpose?");
    }
    std::memcpy(out, &half, kF16Bytes);
    out += kF16Bytes;
}

float take_f16(const std::byte*& stored) {
    std::uint16_t half = 0;
    std::memcpy(&half, stored, kF16Bytes);
    stored += kF16Bytes;
    return std::bit_cast<float>(f32_from_f16(half));
}

/// 0 where the reciprocal is no number: the block reads as zeros then.
float reciprocal(float step) {
    const float inverse = 1.0F / step;
    return std::isfinite(inverse) ? inverse : 0.0F;
}

/// The first of the largest magnitudes, with its sign, which is the scale's.
float first_largest(const QuantiseKernels& kernels, const float* x) {
    const std::uint32_t largest = kernels.largest(x, kValues);
    return *std::find_if(x, x + kValues, [&](float value) {
        return (std::bit_cast<std::uint32_t>(value) & kF32Magnitude) == largest;
    });
}

/// The last of the values that equal `value`, which gives a zero its sign.
float last_equal(const float* x, float value) {
    std::size_t at = kValues - 1;
    while (at > 0 && x[at] != value) {
        --at;
    }
    return x[at];
}

/// Codes of `kBits`, of value code * step, less half of all steps or plus the block's minimum.
template <unsigned kBits, bool kHasMinimum>
struct Nibbles {
    static constexpr int kTop = (1 << kBits) - 1;
    static constexpr int kZero = kHasMinimum ? 0 : 1 << (kBits - 1);

    static void encode(const QuantiseKernels& kernels, const float* x, std::byte* out) {
        float low = 0;
        float step = 0;
        if constexpr (kHasMinimum) {
            float most = 0;
            kernels.extremes(x, kValues, &low, &most);
            low = last_equal(x, low);
            step = std::fabs(most - low) / static_cast<float>(kTop);
        } else {
            step = first_largest(kernels, x) / static_cast<float>(-kZero);
        }
        store_f16(step, out);
        if constexpr (kHasMinimum) {
            store_f16(low, out);
        }
        Codes codes{};
        kernels.whole_of_product(x, low, reciprocal(step), static_cast<float>(kZero) + 0.5F, kTop,
                                 codes.data(), kValues);
        pack(codes, out);
    }

    /// The fifth bits in front, then low halves: values i and i + 16 share a byte.
    static void pack(const Codes& codes, std::byte* out) {
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

    static Codes unpacked(const std::byte* stored) {
        Codes codes{};
        std::uint32_t high = 0;
        if constexpr (kBits == 5) {
            std::memcpy(&high, stored, sizeof(high));
            stored += sizeof(high);
        }
        for (std::size_t i = 0; i < kHalf; ++i) {
            const auto both = std::to_integer<std::uint32_t>(stored[i]);
            codes[i] = static_cast<std::uint8_t>((both & 15U) | (((high >> i) & 1U) << 4U));
            codes[i + kHalf] =
                static_cast<std::uint8_t>((both >> 4U) | (((high >> (i + kHalf)) & 1U) << 4U));
        }
        return codes;
    }

    /// The values; gives the largest magnitude there is.
    static float decode(const QuantiseKernels& kernels, const std::byte* stored, float* x) {
        const float step = take_f16(stored);
        const float low = kHasMinimum ? take_f16(stored) : 0.0F;
        const Codes codes = unpacked(stored);
        kernels.of_integer(codes.data(), static_cast<float>(kZero), x, kValues);
        kernels.multiply(x, step, kValues);
        if constexpr (kHasMinimum) {
            for (std::size_t i = 0; i < kValues; ++i) {
                x[i] += low;
            }
        }
        return kHasMinimum ? std::numeric_limits<float>::infinity()
                           : std::fabs(step) * static_cast<float>(kZero);
    }
};

struct Bytes8 {
    static constexpr float kTop = 127;

    static void encode(const QuantiseKernels& kernels, const float* x, std::byte* out) {
        const float step = std::bit_cast<float>(kernels.largest(x, kValues)) / kTop;
        store_f16(step, out);
        kernels.byte_of_product(x, reciprocal(step), reinterpret_cast<std::uint8_t*>(out), kValues);
    }

    static float decode(const QuantiseKernels& /*kernels*/, const std::byte* stored, float* x) {
        const float step = take_f16(stored);
        for (std::size_t i = 0; i < kValues; ++i) {
            const auto code = std::to_integer<std::uint8_t>(stored[i]);
            x[i] = static_cast<float>(static_cast<std::int8_t>(code)) * step;
        }
        return step * kTop;
    }
};

template <typename Type>
constexpr BlockCoder kCoderOf{Type::encode, Type::decode};

// Numbers: GGMLQuantizationType and LlamaFileType of gguf-py 0.19, constants.py.
template <typename Type>
constexpr EncodingFacts blocks(std::string_view name, Bytes bytes, std::uint32_t type,
                               std::uint32_t file_type) {
    return {.name = name,
            .tile_columns = kValues,
            .blocks = &kCoderOf<Type>,
            .block_bytes = bytes,
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
    blocks<Bytes8>("gguf:q8_0", 34, 8, 7),
    blocks<Nibbles<5, true>>("gguf:q5_1", 24, 7, 9),
    blocks<Nibbles<5, false>>("gguf:q5_0", 22, 6, 8),
    blocks<Nibbles<4, true>>("gguf:q4_1", 20, 3, 3),
    blocks<Nibbles<4, false>>("gguf:q4_0", 18, 2, 2),
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
        for (std::size_t at = 0; at < row.size() / kValues; ++at) {
            coder_->encode(kernels_, row.data() + at * kValues,
                           out.data() + at * facts_.block_bytes);
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
        for (std::size_t at = 0; at < most.size(); ++at) {
            most[at] = coder_->decode(kernels_, stored.data() + at * facts_.block_bytes,
                                      row.data() + at * kValues);
        }
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
    const QuantiseKernels& kernels_ = best_quantise_kernels();
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
    const QuantiseKernels& kernels = best_quantise_kernels();
    Quality found;
    for (std::size_t r = 0; r < all.n_rows(); ++r) {
        convert(rows.weight, all.values_of(values, r), DType::f32,
                std::as_writable_bytes(std::span(row)));
        all.decode(all.blocks_of(blocks, r), read, most);
        for (std::size_t begin = 0; begin < row.size(); begin += kValues) {
            Quality tile;
            kernels.compare(row.data() + begin, read.data() + begin, 1, most[begin / kValues],
                            std::min(kValues, row.size() - begin), &tile);
            found.add_tile(tile, first_row + static_cast<Index>(r), static_cast<Index>(begin));
        }
    }
    return found;
}

}  // namespace shardweld::numeric
