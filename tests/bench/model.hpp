// The synthetic model: sizes of a llama-like network, its hub tensors, and how Megatron cuts them.
// Knows Megatron's sharding rules; nothing of files. Source: megatron-core 0.16.1.
#pragma once

#include <string>
#include <vector>

#include "values.hpp"

namespace shardweld::bench {

struct Model {
    Index hidden = 0;
    Index heads = 0;
    Index groups = 0;  ///< key and value heads
    Index head_dim = 0;
    Index ffn = 0;
    Index vocab = 0;
    Index layers = 0;
};

/// Ranks of the run that saved.
struct Grid {
    Index tp = 1;
    Index pp = 1;
    Index vpp = 1;

    [[nodiscard]] Index stages() const { return pp * vpp; }
};

/// Dimensions for about `bytes` bytes of weights of `dtype`, with layers that fill the stages
/// evenly. Error(usage) when tp divides neither heads nor rows.
Model model_of_size(double bytes, DType dtype, const Grid& grid);

/// Rows of embedding and head as stored: a multiple of 128 tp.
Index padded_vocab(const Model& model, const Grid& grid);

struct HubTensor {
    std::string name;
    std::vector<Index> shape;
};

/// What a merge must write.
std::vector<HubTensor> hub_tensors(const Model& model);

/// A rectangle of a Megatron tensor and the hub elements it holds, in storage order.
struct Chunk {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    std::vector<Band> bands;
};

/// What one tp rank holds of a Megatron tensor. Gate and up halves are chunks apart.
struct Shard {
    std::string name;  ///< without "decoder.layers.N."
    std::vector<Index> shape;
    std::vector<Chunk> chunks;
    bool is_replicated = false;  ///< the same on all tp ranks
};

/// The tensors of decoder layer `layer` (global number) on one tp rank.
std::vector<Shard> layer_shards(const Model& model, const Grid& grid, Index layer, Index rank);
Shard embedding_shard(const Model& model, const Grid& grid, Index rank);
Shard head_shard(const Model& model, const Grid& grid, Index rank);
Shard final_norm_shard(const Model& model);

}  // namespace shardweld::bench
