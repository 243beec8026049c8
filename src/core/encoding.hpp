// Encodings of weights with few bits: names, tiles, and which tensors a weight becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dtype.hpp"
#include "index.hpp"

namespace shardweld {

/// A way to store weights in few bits, by who defines it.
enum class Encoding : std::uint8_t {
    fp8_block,        ///< DeepSeek's, as transformers' Fp8Quantize writes it
    fp8_block_ue8m0,  ///< the same with powers of two as scales
    fp8_channel,      ///< compressed-tensors from here on: a scale for each row
    fp8_block_ct,     ///< 128 x 128
    w8a16,            ///< integers with a scale for 128 columns
    w8a16_g64,
    w8a16_g32,
    w8a16_channel,
    w4a16,
    w4a16_g64,
    w4a16_g32,
    w4a16_channel,
    nvfp4a16,
    mxfp4,
    gptoss_mxfp4,  ///< blocks and scales of gpt-oss, by columns of the stored experts
    gguf_q8_0,     ///< GGML's types from here on: blocks of 32 values with their scale
    gguf_q5_1,
    gguf_q5_0,
    gguf_q4_1,
    gguf_q4_0,
    gguf_f16,
    gguf_bf16,
    gguf_f32,
};

/// What a matrix [rows, columns] becomes: codes, and a scale for each tile.
struct EncodingFacts {
    Encoding encoding;
    std::string_view name;        ///< the value of --quantize
    std::string_view alias;       ///< compressed-tensors' preset, "" if there is none
    Index tile_rows = 1;          ///< that share a scale
    Index tile_columns = 0;       ///< that do; 0: all
    bool takes_part_rows = true;  ///< the last tile may have fewer rows
    DType codes = DType::u8;      ///< type of the codes' tensor
    Index code_bits = 8;
    std::optional<DType> scales;  ///< type of the scales; nullopt: the weight's
    std::string_view codes_ending;
    std::string_view scales_ending;
    bool has_shape = false;   ///< NAME_shape, i64 [2]
    bool has_global = false;  ///< NAME_global_scale, f32 [1]
    bool is_compressed_tensors = true;
    Bytes block_bytes = 0;        ///< GGML's types: of `tile_columns` values, scale and all; else 0
    std::uint32_t ggml_type = 0;  ///< their number

    /// One of GGML's types, which have no scales beside them.
    [[nodiscard]] bool is_ggml() const { return block_bytes != 0; }
    /// Elements of the codes' tensor in one row; the last may be filled up with zeros.
    [[nodiscard]] Index code_columns(Index columns) const;
    [[nodiscard]] Index scale_rows(Index rows) const;
    [[nodiscard]] Index scale_columns(Index columns) const;  ///< 0: no scales
    [[nodiscard]] DType scale_type(DType weight) const { return scales.value_or(weight); }
    /// Why matrices of this shape stay as they are; "" if they need not.
    [[nodiscard]] std::string refusal(Index rows, Index columns) const;
};

const EncodingFacts& facts_of(Encoding encoding);
/// By name or alias.
std::optional<Encoding> encoding_from(std::string_view name);
/// All names, for messages.
std::vector<std::string> encoding_names();

}  // namespace shardweld
