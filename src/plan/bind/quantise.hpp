// Weights of linear layers written as codes and scales, decided behind bind.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "plan/binding.hpp"

namespace shardweld::plan {

/// What became of a model's weights.
struct Quantisation {
    Encoding encoding{};
    std::vector<std::string> kept;   ///< modules whose matrices stay as they are, sorted
    std::vector<std::string> notes;  ///< for people: what stays, and why
    Index n_quantised = 0;
    /// Where scales have a divisor: the weights as they are quantised, and by weight which share
    /// one.
    std::vector<Target> measured;
    std::vector<std::uint32_t> shares;
};

/// A tensor of one dim whose bytes are known.
WrittenTensor constant(std::string name, DType dtype, Index n, ByteView bytes);
/// A target that is such a tensor.
Target literal_target(std::string name, DType dtype, Index n, ByteView bytes);

/// Each target that the recipe calls linear becomes codes, scales and what else the encoding has.
/// What servers fuse (queries, keys and values; gate and up; the experts of a layer) is
/// quantised all or none. Error(unsupported) when the recipe names no linear weights or none can be
/// quantised.
Quantisation quantise(std::vector<Target>& targets, const Model& model, Encoding encoding,
                      const std::function<bool(const std::string&)>& is_ignored);

/// Quantises to one of GGML's types a model that is bound in llama.cpp's form: every target becomes
/// blocks. Norms, other tensors of one dim and lines that `keep f32` are F32; rows that fill no
/// blocks F16, as convert_hf_to_gguf writes them; those that are ignored keep their type.
/// Error(unsupported) for targets that are no floats or made of several checkpoints.
Quantisation quantise_ggml(std::vector<Target>& targets, const Model& model, Encoding encoding,
                           const std::function<bool(const std::string&)>& is_ignored);

}  // namespace shardweld::plan
