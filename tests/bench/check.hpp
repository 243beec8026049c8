// Compares a merged model with the values it must have, computed from names and positions alone.
// Knows safetensors files; nothing of the checkpoint they came from.
// Source: safetensors 0.8, README "Format".
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint.hpp"

namespace shardweld::bench {

struct CheckResult {
    std::vector<std::string> differences;  ///< the first ones, one line each
    Index n_tensors = 0;
    Bytes compared_bytes = 0;
};

/// Reads every *.safetensors file of `directory`: each expected tensor must be there once, with
/// dtype, shape and values, and no other. `dtype`: what the values were cast to (bf16 from f32, to
/// the nearest, ties to even), or their own. With `is_sample` only some blocks of each tensor are
/// compared: the first, the last and a few between.
CheckResult check_merge(const std::filesystem::path& directory, const Checkpoint& checkpoint,
                        DType dtype, bool is_sample, unsigned n_threads);

}  // namespace shardweld::bench
