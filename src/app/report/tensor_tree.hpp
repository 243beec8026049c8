// Stored tensors as a tree by the components of their names, rows that differ only in numbers
// folded.
#pragma once

#include <string>
#include <vector>

#include "catalogue/tensor.hpp"

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

/// The stored tensors of one name, joined or not.
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

/// Rows of stored tensors that are alike but for numbers in their names.
struct FoldedRow {
    std::vector<std::string> path;  ///< components of the name; a folded one is "{0..7}"
    std::size_t n_tensors = 0;
    StoredRow sum;  ///< dtype and shape of each; counts and bytes of all; the first one's name
};

/// Every row stands in exactly one folded row, and a folded row names exactly its rows: all
/// combinations of the numbers in its braces. In the order of their first rows. Empty where that
/// leaves more rows than anybody reads.
std::vector<FoldedRow> folded(const std::vector<StoredRow>& rows);

/// "0..7", "1,3,5", "0..2,8": ascending numbers.
std::string ranges_text(const std::vector<Index>& numbers);

/// A line for each folded row and each part of the names that several share, with what lies below
/// it; "" where there are too many.
std::string tensor_tree(const std::vector<StoredRow>& rows);

}  // namespace shardweld::app
