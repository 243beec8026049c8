// Matrices walked through tile by tile to make codes of them.
#include "quantise.hpp"

#include <algorithm>
#include <vector>

#include "shardweld/error.hpp"

#include "convert.hpp"
#include "ggml_blocks.hpp"
#include "row_places.hpp"

namespace shardweld::numeric {

namespace {

class Quantiser {
  public:
    Quantiser(const QuantisedRows& rows, ByteView values)
        : rows_(rows),
          values_(values),
          places_(rows),
          coder_(*places_.facts.coder),
          kernels_(best_quantise_kernels()),
          row_(places_.n_columns),
          operands_(places_.n_tiles),
          // Nibbles of the last, partly filled element are zeros.
          codes_(places_.code_bytes * (places_.facts.code_bits == 4 ? 2 : 1)) {}

    void run(ByteSpan codes, ByteSpan scales) {
        const std::size_t n_rows = as_size(rows_.n_rows);
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
    void take_scales(std::size_t begin, std::size_t end, ByteSpan scales) {
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

    void encode(std::size_t row, ByteSpan codes) {
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
    ByteView values_;
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

void quantise(const QuantisedRows& rows, ByteView values, ByteSpan codes, ByteSpan scales) {
    if (facts_of(rows.encoding).is_ggml()) {
        encode_blocks(rows, values, codes);
        return;
    }
    RowPlaces(rows).require(rows, codes.size(), scales.size());
    Quantiser(rows, values).run(codes, scales);
}

float largest_magnitude(DType dtype, ByteView values) {
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
