// A low-rank update that is added to a target while it is written (LoRA).
// Pure values; where its factors come from is the caller's business.
#pragma once

#include <optional>

#include "core/index.hpp"

namespace shardweld::plan {

/// fp32 elements in the file of factors: (i, k) lies at `offset` + 4 * (i * row_stride + k *
/// col_stride), of matrix b of several `b * batch_stride` elements further.
struct Matrix {
    Bytes offset = 0;
    Index row_stride = 0;
    Index col_stride = 0;
    Index batch_stride = 0;
};

/// The target as a matrix W, or as n_batches of them one behind the other, becomes gain * (W +
/// scale * left * right), in fp32, rounded once to the type that is written. Order of operations:
/// numeric/low_rank.hpp.
struct Fold {
    /// Along what a weight is normalised (DoRA): each row or each column has a gain of its own.
    enum class Norm { none, rows, columns };

    Index n_batches = 1;  ///< more than one: without a norm
    Index n_rows = 0;     ///< of one matrix
    Index n_cols = 0;
    Index rank = 0;
    double scale = 1;            ///< rounded to fp32 where it is used
    std::optional<Matrix> left;  ///< n_rows x rank; none: all ones
    Matrix right;                ///< rank x n_cols
    Norm norm = Norm::none;
    /// fp32 per row or column: magnitudes; replaced by gains (magnitude / norm) before the fold.
    Bytes magnitudes = 0;
};

}  // namespace shardweld::plan
