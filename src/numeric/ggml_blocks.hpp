// Rows as blocks of GGML's types.
#pragma once

#include "quality.hpp"
#include "quantised_rows.hpp"

namespace shardweld::numeric {

/// As quantise, dequantise and quality_of.
void encode_blocks(const QuantisedRows& rows, ByteView values, ByteSpan blocks);
void decode_blocks(const QuantisedRows& rows, ByteView blocks, ByteSpan values);
Quality quality_of_blocks(const QuantisedRows& rows, Index first_row, ByteView values,
                          ByteView blocks);

}  // namespace shardweld::numeric
