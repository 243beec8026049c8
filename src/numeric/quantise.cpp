// Matrices walked through tile by tile. Knows where codes and scales lie; nothing of their values.
#include "shardweld/numeric/quantise.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "shardweld/core/error.hpp"
#include "shardweld/numeric/convert.hpp"

#include "coder.hpp"
#include "ggml_blocks.hpp"

namespace shardweld::numeric {

namespace {

const Coder& coder_of(Encoding encoding) {
    switch (encoding) {
        case Encoding::fp8_block:
        case Encoding::fp8_block_ue8m0:
        case Encoding::fp8_channel:
        case Encoding::fp8_block_ct:
            return fp8_coder(encoding);
        case Encoding::w8a16:
        case Encoding::w8a16_channel:
        case Encoding::w4a16:
            return integer_coder(encoding);
        default:
            return fp4_coder(encoding);
    }
}

std::size_t count_of(Index value) {
    return static_cast<std::size_t>(value);
}

/// Where everything of some rows lies, in elements and bytes.
struct RowPlaces {
    explicit RowPlaces(const QuantisedRows& rows)
        : facts(facts_of(rows.encoding)),
          n_columns(count_of(rows.n_columns)),
          tile_rows(count_of(facts.tile_rows)),
          tile(facts.tile_columns == 0 ? n_columns : count_of(facts.tile_columns)),
          n_tiles(count_of(facts.scale_columns(rows.n_columns))),
          scale_bytes(size_of(facts.scale_type(rows.weight))),
          code_bytes(count_of(facts.code_columns(rows.n_columns)) * size_of(facts.codes)) {}

    /// Columns of a tile.
    [[nodiscard]] std::size_t width(std::size_t at) const {
        return std::min(tile, n_columns - at * tile);
    }
    void require(const QuantisedRows& rows, std::size_t n_codes, std::size_t n_scales) const {
        const std::size_t n_rows = count_of(rows.n_rows);
        if (n_codes != n_rows * code_bytes ||
            n_scales != count_of(facts.scale_rows(rows.n_rows)) * n_tiles * scale_bytes) {
            throw Error(ErrorCode::internal, "codes and scales that do not fit their rows");
        }
    }

    const EncodingFacts& facts;
    std::size_t n_columns, tile_rows, tile, n_tiles, scale_bytes, code_bytes;
};

class Quantiser {
  public:
    Quantiser(const QuantisedRows& rows, std::span<const std::byte> values)
        : rows_(rows),
          values_(values),
          places_(rows),
          coder_(coder_of(rows.encoding)),
          lanes_(best_lanes()),
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
                largest[at] = std::max(largest[at], lanes_.largest(row_.data() + at * places_.tile,
                                                                   places_.width(at)));
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
            coder_.encode(rows_, lanes_, row_.data() + first, operands_[at], out + first,
                          places_.width(at));
        }
        if (is_packed) {
            lanes_.pack_nibbles(codes_.data(), bytes, codes.size());
        }
    }

    static constexpr std::size_t kNoRow = ~std::size_t{0};

    const QuantisedRows& rows_;
    std::span<const std::byte> values_;
    RowPlaces places_;
    const Coder& coder_;
    const Lanes& lanes_;
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

void dequantise(const QuantisedRows& rows, std::span<const std::byte> codes,
                std::span<const std::byte> scales, std::span<std::byte> values) {
    if (facts_of(rows.encoding).is_ggml()) {
        decode_blocks(rows, codes, values);
        return;
    }
    const RowPlaces places(rows);
    places.require(rows, codes.size(), scales.size());
    const Coder& coder = coder_of(rows.encoding);
    const bool is_packed = places.facts.code_bits == 4;
    std::vector<float> row(places.n_columns);
    const std::size_t bytes = row.size() * size_of(DType::bf16);
    for (std::size_t r = 0; r < count_of(rows.n_rows); ++r) {
        const std::byte* code = codes.data() + r * places.code_bytes;
        const std::byte* scale =
            scales.data() + r / places.tile_rows * places.n_tiles * places.scale_bytes;
        for (std::size_t at = 0; at < places.n_tiles; ++at) {
            const float step = coder.step(rows, scale + at * places.scale_bytes);
            if (std::isnan(step)) {
                throw Error(ErrorCode::unsupported, "a scale is no number");
            }
            const std::size_t first = at * places.tile;
            for (std::size_t i = first; i < first + places.width(at); ++i) {
                const auto whole = std::to_integer<std::size_t>(code[is_packed ? i / 2 : i]);
                const std::size_t one = is_packed ? (whole >> (i % 2 * 4)) & 15U : whole;
                row[i] = coder.values()[one] * step;
            }
        }
        convert(DType::f32, std::as_bytes(std::span(row)), DType::bf16,
                values.subspan(r * bytes, bytes));
    }
}

Quality quality_of(const QuantisedRows& rows, Index first_row, std::span<const std::byte> values,
                   std::span<const std::byte> codes, std::span<const std::byte> scales) {
    if (facts_of(rows.encoding).is_ggml()) {
        return quality_of_blocks(rows, first_row, values, codes);
    }
    const RowPlaces places(rows);
    places.require(rows, codes.size(), scales.size());
    const Coder& coder = coder_of(rows.encoding);
    const float most = coder.values()[coder.largest_code];
    const bool is_packed = places.facts.code_bits == 4;
    const std::size_t n_rows = count_of(rows.n_rows);
    const std::size_t bytes = places.n_columns * size_of(rows.weight);
    std::vector<float> row(places.n_columns);
    Quality found;
    for (std::size_t begin = 0; begin < n_rows; begin += places.tile_rows) {
        std::vector<Quality> tiles(places.n_tiles);
        const std::byte* scale =
            scales.data() + begin / places.tile_rows * places.n_tiles * places.scale_bytes;
        for (std::size_t r = begin; r < std::min(begin + places.tile_rows, n_rows); ++r) {
            convert(rows.weight, values.subspan(r * bytes, bytes), DType::f32,
                    std::as_writable_bytes(std::span(row)));
            const std::byte* code = codes.data() + r * places.code_bytes;
            for (std::size_t at = 0; at < places.n_tiles; ++at) {
                const float step = coder.step(rows, scale + at * places.scale_bytes);
                const std::size_t first = at * places.tile;
                for (std::size_t i = first; i < first + places.width(at); ++i) {
                    const auto whole = std::to_integer<std::size_t>(code[is_packed ? i / 2 : i]);
                    const std::size_t one = is_packed ? (whole >> (i % 2 * 4)) & 15U : whole;
                    tiles[at].add(row[i], coder.values()[one] * step, most * step);
                }
            }
        }
        for (std::size_t at = 0; at < places.n_tiles; ++at) {
            tiles[at].worst = {first_row + static_cast<Index>(begin),
                               static_cast<Index>(at * places.tile), tiles[at].relative_error()};
            found.add(tiles[at]);
        }
    }
    return found;
}

void dequantise_turned(const QuantisedRows& rows, std::span<const std::byte> codes,
                       std::span<const std::byte> scales, std::span<std::byte> values) {
    const std::size_t n = count_of(rows.n_columns);
    const std::size_t n_rows = count_of(rows.n_rows);
    const auto tile = count_of(facts_of(rows.encoding).tile_columns);
    if (n_rows % tile != 0 || codes.size() != n_rows / 2 * n ||
        scales.size() != n_rows / tile * n) {
        throw Error(ErrorCode::internal, "codes and scales that do not fit their rows");
    }
    const Coder& coder = coder_of(rows.encoding);
    std::vector<float> row(n);
    const std::size_t bytes = n * size_of(DType::bf16);
    for (std::size_t r = 0; r < n_rows; ++r) {
        for (std::size_t i = 0; i < n; ++i) {
            const float step = coder.step(rows, &scales[r / tile * n + i]);
            if (std::isnan(step)) {
                throw Error(ErrorCode::unsupported, "a scale is no number");
            }
            const auto both = std::to_integer<std::size_t>(codes[r / 2 * n + i]);
            row[i] = coder.values()[(both >> (r % 2 * 4)) & 15U] * step;
        }
        convert(DType::f32, std::as_bytes(std::span(row)), DType::bf16,
                values.subspan(r * bytes, bytes));
    }
}

float largest_magnitude(DType dtype, std::span<const std::byte> values) {
    constexpr std::size_t kAtOnce = 4096;
    std::vector<float> part(std::min(kAtOnce, values.size() / size_of(dtype)));
    std::uint32_t largest = 0;
    while (!values.empty()) {
        const std::size_t n = std::min(kAtOnce, values.size() / size_of(dtype));
        const auto some = std::span(part).first(n);
        convert(dtype, values.first(n * size_of(dtype)), DType::f32, std::as_writable_bytes(some));
        largest = std::max(largest, best_lanes().largest(some.data(), n));
        values = values.subspan(n * size_of(dtype));
    }
    return std::bit_cast<float>(largest);
}

}  // namespace shardweld::numeric
