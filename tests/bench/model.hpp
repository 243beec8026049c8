// The synthetic models: sizes of llama-like networks and of DeepSeek-like ones (latent attention,
// experts), their hub tensors, and how Megatron cuts them.
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
    // Latent attention; 0 in llamas. A query or key head has head_dim + rope_dim elements.
    Index query_rank = 0;
    Index key_rank = 0;
    Index rope_dim = 0;
    Index value_dim = 0;
    // Experts; 0 in llamas.
    Index experts = 0;
    Index expert_ffn = 0;    ///< also of the one shared expert
    Index dense_layers = 0;  ///< the first ones

    [[nodiscard]] bool has_experts() const { return experts != 0; }
};

/// Ranks of the run that saved.
struct Grid {
    Index tp = 1;
    Index pp = 1;
    Index vpp = 1;
    Index ep = 1;       ///< of models with experts only, as etp
    Index etp = 1;      ///< divides tp
    Index writers = 2;  ///< files of a rank in torch_dist

    [[nodiscard]] Index stages() const { return pp * vpp; }
    /// So many that all dense and all expert shards are there; dense ones several times.
    [[nodiscard]] Index ranks_per_stage() const;
};

/// Coordinates of one rank of a pipeline stage.
struct Place {
    Index tp = 0;
    Index etp = 0;
    Index ep = 0;
    Index dp = 0;         ///< among ranks that hold the same dense shards
    Index expert_dp = 0;  ///< among ranks that hold the same experts' shards
};

Place place_of(const Grid& grid, Index rank_of_stage);

/// Dimensions for about `bytes` bytes of weights of `dtype`, with layers that fill the stages
/// evenly. Error(usage) when tp divides neither heads nor rows.
Model model_of_size(double bytes, DType dtype, const Grid& grid);

/// "671b" (as DeepSeek V3), "1t" (as Kimi K2) or "moe" (of a megabyte). `layers`: 0 for its own
/// number. Error(usage) when the grid does not divide it.
Model model_named(const std::string& name, Index layers, const Grid& grid);

/// Rows of embedding and head as stored: a multiple of 128 tp.
Index padded_vocab(const Model& model, const Grid& grid);

struct HubTensor {
    std::string name;
    std::vector<Index> shape;
    bool is_f32 = false;  ///< whatever the others are
};

/// What a merge must write.
std::vector<HubTensor> hub_tensors(const Model& model);

/// What the module of the network holds: as hub_tensors(), but all experts of a layer are one
/// tensor. Source: transformers 5.
std::vector<HubTensor> module_tensors(const Model& model);

/// Rows [begin, end) of a module's tensor.
std::vector<Band> module_rows(const HubTensor& tensor, Index begin, Index end);

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
    bool is_f32 = false;
    Index expert = -1;  ///< global number; name, shape and chunks are those of one expert

    [[nodiscard]] bool is_expert() const { return expert >= 0; }
};

/// The tensors of decoder layer `layer` (global number) on one rank.
std::vector<Shard> layer_shards(const Model& model, const Grid& grid, Index layer,
                                const Place& place);
Shard embedding_shard(const Model& model, const Grid& grid, Index rank);
Shard head_shard(const Model& model, const Grid& grid, Index rank);
Shard final_norm_shard(const Model& model);

}  // namespace shardweld::bench
