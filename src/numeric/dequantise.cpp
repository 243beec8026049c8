// Codes and scales read back: as weights, and to tell how near they are to the weights they were
// made of.
#include <algorithm>
#include <cmath>
#include <vector>

#include "core/lists.hpp"
#include "shardweld/error.hpp"

#include "convert.hpp"
#include "ggml_blocks.hpp"
#include "quantise.hpp"
#include "row_places.hpp"

namespace shardweld::numeric {

namespace {

/// What the codes of a matrix are read as, row by row.
class RowReader {
  public:
    RowReader(const QuantisedRows& rows, ByteView codes, ByteView scales)
        : places(rows),
          values(places.n_columns),
          steps(places.n_tiles),
          most(places.n_tiles),
          coder(*places.facts.coder),
          rows_(rows),
          codes_(codes),
          scales_(scales),
          unpacked_(places.code_bytes * 2) {
        places.require(rows, codes.size(), scales.size());
    }

    /// As decode, and the values are multiplied.
    void read(std::size_t row) {
        decode(row);
        for (const std::size_t at : indices(steps)) {
            kernels.multiply(values.data() + at * places.tile, steps[at], places.width(at));
        }
    }

    /// Values of codes and what they are to be multiplied with. Error(unsupported) for a scale that
    /// is no number.
    void decode(std::size_t row) {
        if (row % places.tile_rows == 0) {
            take_steps(row / places.tile_rows);
        }
        const auto* bytes =
            reinterpret_cast<const std::uint8_t*>(codes_.data()) + row * places.code_bytes;
        if (places.facts.code_bits == 4) {
            kernels.unpack_nibbles(bytes, unpacked_.data(), places.code_bytes);
            bytes = unpacked_.data();
        }
        coder.decode(kernels, bytes, values.data(), values.size());
    }

    RowPlaces places;
    std::vector<float> values;  ///< of the row
    std::vector<float> steps;   ///< of its tiles
    std::vector<float> most;    ///< largest values that these allow
    const Coder& coder;
    const QuantiseKernels& kernels = best_quantise_kernels();

  private:
    void take_steps(std::size_t tile_row) {
        const std::byte* scale = scales_.data() + tile_row * places.n_tiles * places.scale_bytes;
        for (const std::size_t at : indices(steps)) {
            steps[at] = coder.step(rows_, scale + at * places.scale_bytes);
            if (std::isnan(steps[at])) {
                throw Error(ErrorCode::unsupported, "a scale is no number");
            }
            most[at] = coder.largest * steps[at];
        }
    }

    const QuantisedRows& rows_;
    ByteView codes_;
    ByteView scales_;
    std::vector<std::uint8_t> unpacked_;
};

}  // namespace

void dequantise(const QuantisedRows& rows, ByteView codes, ByteView scales, ByteSpan values) {
    if (facts_of(rows.encoding).is_ggml()) {
        decode_blocks(rows, codes, values);
        return;
    }
    RowReader reader(rows, codes, scales);
    const std::size_t bytes = reader.values.size() * size_of(DType::bf16);
    for (std::size_t row = 0; row < as_size(rows.n_rows); ++row) {
        reader.read(row);
        convert(DType::f32, std::as_bytes(std::span(reader.values)), DType::bf16,
                values.subspan(row * bytes, bytes));
    }
}

Quality quality_of(const QuantisedRows& rows, Index first_row, ByteView values, ByteView codes,
                   ByteView scales) {
    if (facts_of(rows.encoding).is_ggml()) {
        return quality_of_blocks(rows, first_row, values, codes);
    }
    RowReader reader(rows, codes, scales);
    const RowPlaces& places = reader.places;
    const std::size_t n_rows = as_size(rows.n_rows);
    const std::size_t bytes = places.n_columns * size_of(rows.weight);
    std::vector<float> row(places.n_columns);
    Quality found;
    std::vector<double> squares;
    for (std::size_t begin = 0; begin < n_rows; begin += places.tile_rows) {
        squares.assign(2 * places.n_tiles, 0);
        for (std::size_t r = begin; r < std::min(begin + places.tile_rows, n_rows); ++r) {
            reader.decode(r);
            convert(rows.weight, values.subspan(r * bytes, bytes), DType::f32,
                    std::as_writable_bytes(std::span(row)));
            reader.kernels.compare(row.data(), reader.values.data(), reader.steps.data(),
                                   reader.most.data(), places.tile, places.n_columns,
                                   squares.data(), &found);
        }
        for (std::size_t at = 0; at < places.n_tiles; ++at) {
            found.add_tile(squares[2 * at], squares[2 * at + 1],
                           first_row + static_cast<Index>(begin),
                           static_cast<Index>(at * places.tile));
        }
    }
    return found;
}

void dequantise_turned(const QuantisedRows& rows, ByteView codes, ByteView scales,
                       ByteSpan values) {
    const std::size_t n = as_size(rows.n_columns);
    const std::size_t n_rows = as_size(rows.n_rows);
    const auto tile = as_size(facts_of(rows.encoding).tile_columns);
    if (n_rows % tile != 0 || codes.size() != n_rows / 2 * n ||
        scales.size() != n_rows / tile * n) {
        throw Error(ErrorCode::internal, "codes and scales that do not fit their rows");
    }
    const Coder& coder = *facts_of(rows.encoding).coder;
    std::vector<std::uint8_t> nibbles(n);
    std::vector<float> row(n);
    const std::size_t bytes = n * size_of(DType::bf16);
    for (std::size_t r = 0; r < n_rows; ++r) {
        for (std::size_t i = 0; i < n; ++i) {
            const auto both = std::to_integer<unsigned>(codes[r / 2 * n + i]);
            nibbles[i] = static_cast<std::uint8_t>((both >> (r % 2 * 4)) & 15U);
        }
        coder.decode(best_quantise_kernels(), nibbles.data(), row.data(), n);
        for (std::size_t i = 0; i < n; ++i) {
            const float step = coder.step(rows, &scales[r / tile * n + i]);
            if (std::isnan(step)) {
                throw Error(ErrorCode::unsupported, "a scale is no number");
            }
            row[i] *= step;
        }
        convert(DType::f32, std::as_bytes(std::span(row)), DType::bf16,
                values.subspan(r * bytes, bytes));
    }
}

}  // namespace shardweld::numeric
