// Weights as codes of few bits with scales, and back: the arithmetic of each encoding, bit for bit
// that of the libraries that read and write it.
#pragma once

#include "core/dtype.hpp"

#include "quality.hpp"
#include "quantised_rows.hpp"

namespace shardweld::numeric {

/// The rows' codes and scales, dense and row-major; sizes are EncodingFacts'. The same bits on
/// every processor. Scales and quotients are rounded as the reference implementations round them,
/// which each file of encodings/ names.
/// A tile whose largest value is below 2^-119 counts as zero in fp8-block, and MXFP4's scales end
/// at 2^125: the libraries make NaN and zeros there. Error(unsupported) when a value is NaN or
/// infinite, or beyond what the F16 scale of a block of GGML's can reach.
void quantise(const QuantisedRows& rows, ByteView values, ByteSpan codes, ByteSpan scales);

/// The values of codes and scales as the libraries read them: products in fp32, rounded once to
/// bf16. Columns that tiles do not fill are the last tile's. Error(unsupported) for a scale that
/// is no number.
void dequantise(const QuantisedRows& rows, ByteView codes, ByteView scales, ByteSpan values);

/// How near the rows' codes are to their values. `first_row` is the number of the first one.
Quality quality_of(const QuantisedRows& rows, Index first_row, ByteView values, ByteView codes,
                   ByteView scales);

/// As dequantise, of gpt-oss' experts, whose columns are the rows that were quantised: `codes` has
/// a row for two of the `rows`, `scales` one for 32.
void dequantise_turned(const QuantisedRows& rows, ByteView codes, ByteView scales, ByteSpan values);

/// The largest magnitude among values of f32, f16 or bf16; NaN when one of them is.
float largest_magnitude(DType dtype, ByteView values);

}  // namespace shardweld::numeric
