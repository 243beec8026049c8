// Global layer numbers for files that count layers from zero in every pipeline stage.
// Source: megatron-core 0.16.1 megatron/core/transformer/transformer_layer.py
// (get_transformer_layer_offset); every way to split layers gives the order used here.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"

namespace shardweld::formats::megatron {

/// "language_model.decoder.layers.3.mlp.x": stack "language_model.decoder.layers.", layer 3, rest
/// ".mlp.x". Views of the name.
struct LayerName {
    std::string_view stack;
    Index layer = 0;
    std::string_view rest;
};

/// nullopt for names outside a decoder, encoder or transformer stack (MTP layers are global
/// already).
std::optional<LayerName> split_layer(std::string_view name);

/// The pipeline: virtual stage s = v * pp + p is chunk v of rank p.
struct Pipeline {
    int pp = 1;
    int vpp = 1;
    std::optional<Index> num_layers;  ///< what args say, to be checked
};

/// Replaces local layer numbers in the names of `shards` by global ones: a stage's layers follow
/// those of all earlier virtual stages. `files` name shard.piece.file in messages. Error(mismatch)
/// when two files of one stage hold different layers, or the total is not pipeline.num_layers.
void number_layers(std::vector<Shard>& shards, const std::vector<File>& files,
                   const std::vector<Coordinates>& places, const Pipeline& pipeline);

}  // namespace shardweld::formats::megatron
