#include "encoding.hpp"

#include <array>

#include "shardweld/error.hpp"

#include "text.hpp"

namespace shardweld {

namespace {

constexpr Index kBlock = 128;
constexpr Index kByteBits = 8;

/// compressed-tensors' packed integers, a scale for `columns` of a row, 0: for all.
constexpr EncodingFacts integers(Encoding encoding, std::string_view name, std::string_view alias,
                                 Index columns, Index bits) {
    return {encoding, name,         alias,     1,        columns, true,  DType::i32,
            bits,     std::nullopt, "_packed", "_scale", true,    false, true};
}

/// A block of a type of GGML's.
struct GgmlBlock {
    Index values = 0;
    Bytes bytes = 0;
    DType codes = DType::u8;
};

constexpr EncodingFacts ggml(Encoding encoding, std::string_view name, std::uint32_t type,
                             GgmlBlock block) {
    EncodingFacts facts{};
    facts.encoding = encoding;
    facts.name = name;
    facts.tile_columns = block.values;
    facts.codes = block.codes;
    facts.is_compressed_tensors = false;
    facts.block_bytes = block.bytes;
    facts.ggml_type = type;
    return facts;
}

// In the order of the enumeration. Sources: transformers 5.23 finegrained_fp8.py and mxfp4.py;
// compressed-tensors 0.20 quant_scheme.py (presets) and compressors; gguf 0.19 constants.py.
constexpr std::array kEncodings = {
    EncodingFacts{Encoding::fp8_block, "fp8-block", "", kBlock, kBlock, false, DType::f8_e4m3, 8,
                  DType::f32, "", "_scale_inv", false, false, false},
    EncodingFacts{Encoding::fp8_block_ue8m0, "fp8-block-ue8m0", "", kBlock, kBlock, false,
                  DType::f8_e4m3, 8, DType::f8_e8m0, "", "_scale_inv", false, false, false},
    EncodingFacts{Encoding::fp8_channel, "fp8-channel", "FP8_DYNAMIC", 1, 0, true, DType::f8_e4m3,
                  8, std::nullopt, "", "_scale", false, false, true},
    EncodingFacts{Encoding::fp8_block_ct, "fp8-block-ct", "FP8_BLOCK", kBlock, kBlock, true,
                  DType::f8_e4m3, 8, std::nullopt, "", "_scale", false, false, true},
    integers(Encoding::w8a16, "w8a16", "W8A16", kBlock, 8),
    integers(Encoding::w8a16_g64, "w8a16-g64", "", 64, 8),
    integers(Encoding::w8a16_g32, "w8a16-g32", "", 32, 8),
    integers(Encoding::w8a16_channel, "w8a16-channel", "", 0, 8),
    integers(Encoding::w4a16, "w4a16", "W4A16", kBlock, 4),
    integers(Encoding::w4a16_g64, "w4a16-g64", "", 64, 4),
    integers(Encoding::w4a16_g32, "w4a16-g32", "", 32, 4),
    integers(Encoding::w4a16_channel, "w4a16-channel", "", 0, 4),
    EncodingFacts{Encoding::nvfp4a16, "nvfp4a16", "NVFP4A16", 1, 16, true, DType::u8, 4,
                  DType::f8_e4m3, "_packed", "_scale", false, true, true},
    EncodingFacts{Encoding::mxfp4, "mxfp4", "MXFP4A16", 1, 32, true, DType::u8, 4, DType::u8,
                  "_packed", "_scale", false, false, true},
    EncodingFacts{Encoding::gptoss_mxfp4, "gptoss-mxfp4", "", 1, 32, true, DType::u8, 4, DType::u8,
                  "_blocks", "_scales", false, false, false},
    ggml(Encoding::gguf_q8_0, "gguf:q8_0", 8, {32, 34}),
    ggml(Encoding::gguf_q5_1, "gguf:q5_1", 7, {32, 24}),
    ggml(Encoding::gguf_q5_0, "gguf:q5_0", 6, {32, 22}),
    ggml(Encoding::gguf_q4_1, "gguf:q4_1", 3, {32, 20}),
    ggml(Encoding::gguf_q4_0, "gguf:q4_0", 2, {32, 18}),
    ggml(Encoding::gguf_f16, "gguf:f16", 1, {1, 2, DType::f16}),
    ggml(Encoding::gguf_bf16, "gguf:bf16", 30, {1, 2, DType::bf16}),
    ggml(Encoding::gguf_f32, "gguf:f32", 0, {1, 4, DType::f32}),
};

Index parts(Index whole, Index part) {
    return whole / part + (whole % part != 0 ? 1 : 0);
}

}  // namespace

Index EncodingFacts::code_columns(Index columns) const {
    if (is_ggml()) {
        return checked_mul(columns / tile_columns, static_cast<Index>(block_bytes / size_of(codes)),
                           "a row of blocks");
    }
    return parts(checked_mul(columns, code_bits, "a row of codes"),
                 kByteBits * static_cast<Index>(size_of(codes)));
}

Index EncodingFacts::scale_rows(Index rows) const {
    return parts(rows, tile_rows);
}

Index EncodingFacts::scale_columns(Index columns) const {
    return is_ggml() ? 0 : tile_columns == 0 ? 1 : parts(columns, tile_columns);
}

std::string EncodingFacts::refusal(Index rows, Index columns) const {
    if (tile_columns != 0 && columns % tile_columns != 0) {
        return std::to_string(columns) + " columns are no multiple of " +
               std::to_string(tile_columns);
    }
    if (!takes_part_rows && rows % tile_rows != 0) {
        return std::to_string(rows) + " rows are no multiple of " + std::to_string(tile_rows);
    }
    return "";
}

const EncodingFacts& facts_of(Encoding encoding) {
    const auto at = static_cast<std::size_t>(encoding);
    if (at >= kEncodings.size()) {
        throw Error(ErrorCode::internal, "an encoding out of range");
    }
    return kEncodings[at];
}

std::optional<Encoding> encoding_from(std::string_view name) {
    for (const EncodingFacts& facts : kEncodings) {
        if (facts.name == name || (!facts.alias.empty() && facts.alias == name)) {
            return facts.encoding;
        }
    }
    return std::nullopt;
}

std::vector<std::string> encoding_names() {
    std::vector<std::string> names;
    names.reserve(kEncodings.size());
    for (const EncodingFacts& facts : kEncodings) {
        names.emplace_back(facts.name);
    }
    return names;
}

}  // namespace shardweld
