// Where codes and scales of a matrix' rows lie.
#pragma once

#include <algorithm>
#include <cstddef>

#include "shardweld/error.hpp"

#include "coder.hpp"
#include "encoding.hpp"
#include "quantised_rows.hpp"

namespace shardweld::numeric {

/// Where everything of some rows lies, in elements and bytes.
struct RowPlaces {
    explicit RowPlaces(const QuantisedRows& rows)
        : facts(facts_of(rows.encoding)),
          n_columns(as_size(rows.n_columns)),
          tile_rows(as_size(facts.tile_rows)),
          tile(facts.tile_columns == 0 ? n_columns : as_size(facts.tile_columns)),
          n_tiles(as_size(facts.scale_columns(rows.n_columns))),
          scale_bytes(size_of(facts.scale_type(rows.weight))),
          code_bytes(as_size(facts.code_columns(rows.n_columns)) * size_of(facts.codes)) {}

    /// Columns of a tile.
    [[nodiscard]] std::size_t width(std::size_t at) const {
        return std::min(tile, n_columns - at * tile);
    }
    void require(const QuantisedRows& rows, std::size_t n_codes, std::size_t n_scales) const {
        const std::size_t n_rows = as_size(rows.n_rows);
        if (n_codes != n_rows * code_bytes ||
            n_scales != as_size(facts.scale_rows(rows.n_rows)) * n_tiles * scale_bytes) {
            throw Error(ErrorCode::internal, "codes and scales that do not fit their rows");
        }
    }

    const EncodingFacts& facts;
    std::size_t n_columns, tile_rows, tile, n_tiles, scale_bytes, code_bytes;
};

}  // namespace shardweld::numeric
