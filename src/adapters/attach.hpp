// An adapter's modules put onto the targets they change, as folds. Facts: PEFT's formulas (peft
// 0.21, tuners/lora/layer.py and variants.py).
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "plan/binding.hpp"

#include "parameters.hpp"
#include "peft_names.hpp"
#include "settings.hpp"

namespace shardweld::adapters {

/// What attaching needs to know beside the modules.
struct Attachment {
    const Settings* settings = nullptr;
    std::vector<Bytes> offsets;        ///< of the adapter's tensors in the file of factors, fp32
    std::set<std::string> base_names;  ///< stored tensors of the base, as bind sees them
    /// The name under which bind sees a tensor of the module tree.
    std::function<std::string(const std::string&)> hub_name;
    /// Whether the module tree has a tensor that the base's files have otherwise.
    std::function<bool(const std::string&)> is_of_tree;
    /// What to do where a weight is not stored as values.
    std::string base_hint = kTrainedOn;
    std::map<std::size_t, LoraParameter> parameters;  ///< by the index of their module
};

/// Gives each target that an adapter changes its fold: W + scale * B * A, transposed for embeddings
/// and fan_in_fan_out, normalised for DoRA, and bias + scale * lora_B.bias; and rows of tokens in
/// the place of the target's. Error(mismatch) naming a module whose weight is missing or of another
/// shape; Error(unsupported) for weights that are not written as they are stored (tied heads, other
/// names or forms than the module tree's), quantised ones and convolutions.
void attach(std::vector<plan::Target>& targets, std::span<const Module> modules,
            std::span<const TokenRows> rows, const Attachment& attachment);

}  // namespace shardweld::adapters
