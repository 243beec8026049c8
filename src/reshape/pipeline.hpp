// Which pipeline stage of a Megatron run has which layers.
// Sources: megatron-core transformer/transformer_layer.py (get_transformer_layer_offset),
// transformer_block.py (get_num_layers_to_build), pipeline_parallel_layer_layout.py.
#pragma once

#include <string>
#include <vector>

#include "core/index.hpp"

#include "destination.hpp"

namespace shardweld::reshape {

/// One chunk of one pipeline rank.
struct Stage {
    Index rank = 0;
    Index chunk = 0;
    Index first = 0;  ///< of its layers
    Index count = 0;
    bool has_embedding = false;
    bool has_mtp = false;
    bool has_head = false;
};

/// In the order in which data runs through them: that of rank p's chunk v is v * pp + p.
using Pipeline = std::vector<Stage>;

/// How many layers a model has.
struct Depth {
    Index layers = 0;
    Index mtp = 0;
    std::string field = "num_hidden_layers";  ///< of config.json, for messages
};

/// Without a layout: as many layers for each stage, but for what first and last say, MTP layers on
/// the last. Error(mismatch) where the layers cannot be spread so, Error(usage) for a layout that
/// Megatron would not take.
Pipeline pipeline_of(const ParallelSizes& sizes, const Depth& depth);

/// "Et*2|(tt|)*3m|L" as stages of letters: Ett, tt, tt, tt, m, L. Error(usage) for other letters
/// and for more of them than any model has layers.
std::vector<std::string> stages_of_layout(const std::string& layout);

}  // namespace shardweld::reshape
