// Stored tensors as one row per name, joined or not.
// Knows catalogues; nothing of how rows are shown.
#pragma once

#include <string>
#include <vector>

#include "catalogue/tensor.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

struct StoredRow {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;  ///< of the whole tensor, or of one shard when is_local
    bool is_local = false;     ///< shards are joined later, by the dialect
    std::size_t n_shards = 0;  ///< pieces that are no replicas
    std::size_t n_replicas = 0;
    Bytes bytes = 0;  ///< of all shards without replicas
    Bytes replica_bytes = 0;
    std::vector<catalogue::Coordinates> ranks;  ///< of local shards
};

/// Natural order of names. Shards of one name, dtype and shape make a row.
std::vector<StoredRow> stored_rows(const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app
