#include "catalogue.hpp"

#include <unordered_set>

namespace shardweld::catalogue {

namespace {

Bytes bytes_of(const Piece& piece, DType dtype) {
    return static_cast<Bytes>(piece.patch.volume()) * size_of(dtype);
}

}  // namespace

std::string iteration_text(const std::map<std::string, Index>& facts) {
    auto* const iteration = find_value(facts, "iteration");
    return iteration == nullptr ? "" : ", iteration " + std::to_string(*iteration);
}

std::vector<const std::string*> distinct_names(const Catalogue& catalogue) {
    std::vector<const std::string*> names;
    std::unordered_set<const std::string*> known;  // a name that ranks share has one address
    each_item(catalogue, [&](const auto& item) {
        const std::string& name = item.name;
        if (known.insert(&name).second) {
            names.push_back(&name);
        }
    });
    return names;
}

Bytes stored_bytes(const Tensor& tensor) {
    return add_up(tensor.pieces, [&](const Piece& piece) { return bytes_of(piece, tensor.dtype); });
}

Bytes stored_bytes(const Shard& shard) {
    return bytes_of(shard.piece, shard.dtype);
}

Bytes stored_bytes(const Catalogue& catalogue) {
    Bytes bytes = 0;
    each_tensor(catalogue, [&](const Tensor& tensor) { bytes += stored_bytes(tensor); });
    each_shard(catalogue, [&](const Shard& shard) { bytes += stored_bytes(shard); });
    for (const Ignored& ignored : catalogue.ignored) {
        bytes += ignored.bytes;
    }
    return bytes;
}

}  // namespace shardweld::catalogue
