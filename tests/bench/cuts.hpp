// How single tensors are cut among ranks, and the layers of models with experts.
// Shared by model.cpp and latent_model.cpp; knows nothing of files.
#pragma once

#include <string>
#include <vector>

#include "model.hpp"

namespace shardweld::bench {

/// "model.layers.3.".
std::string layer_name(Index layer);

/// Rows [row, row + n_rows) of a hub tensor with `columns` columns.
Band rows(const std::string& tensor, Index columns, Index row, Index n_rows);

/// A vector that all ranks hold.
Shard norm(std::string name, const std::string& hub, Index size);

/// Whole rows of a matrix, or columns of all its rows, cut evenly among `n_ranks` ranks.
Shard row_split(const std::string& name, const Band& whole, Index n_ranks, Index rank);
Shard column_split(const std::string& name, const Band& whole, Index n_ranks, Index rank);

/// This rank's rows of the hub tensors `gate` and `up`; in the whole tensor all gate rows come
/// first.
Shard gate_up_split(const std::string& name, const Band& gate, const Band& up, Index n_ranks,
                    Index rank);

/// Layers with latent attention, dense or with experts.
void add_latent_layer(const Model& model, Index layer, std::vector<HubTensor>& out);
std::vector<Shard> latent_layer_shards(const Model& model, const Grid& grid, Index layer,
                                       const Place& place);

}  // namespace shardweld::bench
