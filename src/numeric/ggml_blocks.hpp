// Rows as blocks of GGML's types.
#pragma once

#include <span>

#include "quality.hpp"
#include "quantised_rows.hpp"

namespace shardweld::numeric {

/// As quantise, dequantise and quality_of.
void encode_blocks(const QuantisedRows& rows, std::span<const std::byte> values,
                   std::span<std::byte> blocks);
void decode_blocks(const QuantisedRows& rows, std::span<const std::byte> blocks,
                   std::span<std::byte> values);
Quality quality_of_blocks(const QuantisedRows& rows, Index first_row,
                          std::span<const std::byte> values, std::span<const std::byte> blocks);

}  // namespace shardweld::numeric
