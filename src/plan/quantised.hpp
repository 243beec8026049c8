// A weight that is written as codes and scales, made strip by strip.
// Pure values and their sizes; what the codes are is numeric's business.
#pragma once

#include "core/encoding.hpp"

namespace shardweld::plan {

/// One of the tensors that a weight and its encoding are. A weight that becomes codes and scales
/// has two targets behind one another: the codes', which has the weight's operands, and the
/// scales'. One that is made of them has one target, whose operands are the codes; its scales lie
/// in the file of factors. Strips of the weight's rows are never divided, so neither ranks nor
/// rounds cut a tile.
struct Quantised {
    enum class Part { codes, scales, weight };

    Part part = Part::codes;
    Encoding encoding = Encoding::fp8_block;
    DType weight = DType::bf16;  ///< codes: stored elements are cast to it first; weight: of scales
    Index n_rows = 0;            ///< of a stack of matrices all rows
    Index n_columns = 0;
    Index strip_rows = 0;      ///< a multiple of the tile's
    float global = 1;          ///< NVFP4: the divisor, known before any row is written
    std::uint32_t share = 0;   ///< NVFP4: weights of one number have one divisor
    Bytes scales_at = 0;       ///< weight: in the file of factors, as they are stored
    Bytes global_at = 0;       ///< the same of NVFP4's divisor, f32
    Index rows_per_scale = 0;  ///< weight: that share a stored scale, 0: those of a tile

    /// gpt-oss stores experts by columns: codes and scales of a weight come transposed.
    [[nodiscard]] bool is_turned() const {
        return part == Part::weight && encoding == Encoding::gptoss_mxfp4;
    }
    /// Written elements of this part in one row of the weight, or of its tiles.
    [[nodiscard]] Index row_elements() const {
        const EncodingFacts& facts = facts_of(encoding);
        return part == Part::weight  ? n_columns
               : part == Part::codes ? facts.code_columns(n_columns)
                                     : facts.scale_columns(n_columns);
    }
    /// Written elements of this part in a whole strip.
    [[nodiscard]] Index strip() const {
        return row_elements() *
               (part == Part::scales ? facts_of(encoding).scale_rows(strip_rows) : strip_rows);
    }
    /// Elements of the weight for one element of the codes, at most.
    [[nodiscard]] Index packing() const {
        if (is_turned()) {
            return 2;
        }
        const Index codes = facts_of(encoding).code_columns(n_columns);
        return (n_columns + codes - 1) / codes;
    }
    /// Elements of the codes in so many whole rows.
    [[nodiscard]] Index codes_in(Index rows) const {
        return is_turned() ? rows / 2 * n_columns
                           : rows * facts_of(encoding).code_columns(n_columns);
    }
};

/// Rows of a strip, about a megabyte of bf16.
inline Index strip_rows_of(Index tile_rows, Index columns) {
    constexpr Index kElements = Index{1} << 19U;
    const Index tiles = kElements / tile_rows / (columns > 0 ? columns : 1);
    return tile_rows * (tiles > 1 ? tiles : 1);
}

}  // namespace shardweld::plan
