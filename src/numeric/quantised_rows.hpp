// A part of a matrix that is written as codes of few bits, or was.
#pragma once

#include "core/dtype.hpp"
#include "core/index.hpp"

#include "encoding.hpp"

namespace shardweld::numeric {

/// Consecutive rows of a matrix, a multiple of the encoding's tile or the matrix' last ones.
struct QuantisedRows {
    Encoding encoding{};
    DType weight = DType::bf16;  ///< f32, f16 or bf16
    Index n_rows = 0;
    Index n_columns = 0;
    float global = 1;  ///< EncodingFacts::divisor
};

}  // namespace shardweld::numeric
