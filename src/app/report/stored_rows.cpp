#include "stored_rows.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "catalogue/catalogue.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

void count(StoredRow& row, const catalogue::Piece& piece) {
    const Bytes bytes = static_cast<Bytes>(piece.patch.volume()) * size_of(row.dtype);
    if (piece.replica == 0) {
        ++row.n_shards;
        row.bytes += bytes;
    } else {
        ++row.n_replicas;
        row.replica_bytes += bytes;
    }
}

}  // namespace

std::vector<StoredRow> stored_rows(const catalogue::Catalogue& catalogue) {
    std::vector<StoredRow> rows;
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        StoredRow row{tensor.name, tensor.dtype, tensor.shape, false, 0, 0, 0, 0, {}};
        for (const catalogue::Piece& piece : tensor.pieces) {
            count(row, piece);
        }
        rows.push_back(std::move(row));
    }
    using RowKey = std::tuple<std::string, DType, std::vector<Index>>;
    std::map<RowKey, StoredRow> local;
    for (const catalogue::Shard& shard : catalogue.shards) {
        StoredRow& row =
            local
                .try_emplace({shard.name, shard.dtype, shard.shape},
                             StoredRow{shard.name, shard.dtype, shard.shape, true, 0, 0, 0, 0, {}})
                .first->second;
        count(row, shard.piece);
        row.ranks.push_back(shard.at);
    }
    for (auto& [key, row] : local) {
        rows.push_back(std::move(row));
    }
    std::stable_sort(rows.begin(), rows.end(), [](const StoredRow& a, const StoredRow& b) {
        return natural_less(a.name, b.name);
    });
    return rows;
}

}  // namespace shardweld::app
