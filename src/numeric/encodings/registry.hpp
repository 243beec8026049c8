// Every encoding: the one place that knows them all.
#pragma once

#include <span>

#include "numeric/encoding.hpp"

/// The files of this folder, each with its encodings. Their order gives them their numbers, and of
/// several that stored codes fit the first is meant.
#define SHARDWELD_ENCODINGS(FILE) \
    FILE(fp8_block)               \
    FILE(fp8_compressed)          \
    FILE(integers)                \
    FILE(nvfp4)                   \
    FILE(mxfp4)                   \
    FILE(gptoss)                  \
    FILE(ggml)

namespace shardweld::numeric::encodings {

#define SHARDWELD_DECLARE(file) extern const std::span<const EncodingFacts> file;
SHARDWELD_ENCODINGS(SHARDWELD_DECLARE)
#undef SHARDWELD_DECLARE

}  // namespace shardweld::numeric::encodings
