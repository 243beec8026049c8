// Encodings of weights with few bits: names, tiles, and which tensors a weight becomes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld {

namespace numeric {
struct Coder;
struct BlockCoder;
}  // namespace numeric

/// A way to store weights in few bits, as its number: its place among all rows of the files in
/// encodings/.
enum class Encoding : std::uint8_t {};

/// What a matrix [rows, columns] becomes: codes, and a scale for each tile.
struct EncodingFacts {
    Encoding encoding{};          ///< which the registry gives it
    std::string_view name = {};   ///< the value of --quantize
    std::string_view alias = {};  ///< compressed-tensors' preset, "" if there is none
    Index tile_rows = 1;          ///< that share a scale
    Index tile_columns = 0;       ///< that do; 0: all
    bool takes_part_rows = true;  ///< the last tile may have fewer rows
    DType codes = DType::u8;      ///< type of the codes' tensor
    Index code_bits = 8;
    std::optional<DType> scales = {};  ///< type of the scales; nullopt: the weight's
    std::string_view codes_ending = {};
    std::string_view scales_ending = {};
    bool has_shape = false;        ///< NAME_shape, i64 [2]
    bool by_columns = false;       ///< of experts in one tensor, whose columns are stored as rows
    std::string_view format = {};  ///< compressed-tensors' name of it, "" where another reads it
    /// The block `quantization_config` of config.json where compressed-tensors does not read it;
    /// `kept` are the modules that stay as they are.
    std::string (*config)(const EncodingFacts& facts, const std::vector<std::string>& kept) = {};
    /// The divisor of a weight's scales, NAME_global_scale, f32 [1], of the largest value among all
    /// weights that servers fuse, which a first pass finds; null: it has none.
    float (*divisor)(float largest, DType weight) = {};
    const numeric::Coder* coder = nullptr;        ///< of tiles; null for GGML's types
    const numeric::BlockCoder* blocks = nullptr;  ///< of GGML's types that are no plain floats
    Bytes block_bytes = 0;        ///< GGML's types: of `tile_columns` values, scale and all; else 0
    std::uint32_t ggml_type = 0;  ///< their number
    std::uint32_t ggml_file_type = 0;  ///< of files that hold mostly this

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

/// All encodings, in the order of their numbers.
const std::vector<EncodingFacts>& all_encodings();
const EncodingFacts& facts_of(Encoding encoding);
/// By name or alias.
std::optional<Encoding> encoding_from(std::string_view name);
/// GGML's type of values that are no codes; nullopt: it has none.
std::optional<Encoding> ggml_type_of(DType values);
/// All names, for messages.
std::vector<std::string> encoding_names();

}  // namespace shardweld
