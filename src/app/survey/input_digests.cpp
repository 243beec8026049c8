#include "input_digests.hpp"

#include <span>

#include "shardweld/core/codec.hpp"

namespace shardweld::app {

namespace {

constexpr std::uint64_t kFnvBasis = 14695981039346656037ULL;
constexpr std::uint64_t kFnvPrime = 1099511628211ULL;

void mix(std::uint64_t& hash, std::uint64_t word) {
    hash = (hash ^ word) * kFnvPrime;
    hash ^= hash >> 32U;  // high bits would never reach the low ones
}

void mix(std::uint64_t& hash, const std::string& text) {
    mix(hash, text.size());
    for (const char letter : text) {
        mix(hash, static_cast<unsigned char>(letter));
    }
}

/// Tensors and shards have the same fields.
template <typename Tensor>
std::uint64_t hash_of(const Tensor& tensor) {
    std::uint64_t hash = kFnvBasis;
    mix(hash, tensor.name);
    mix(hash, static_cast<std::uint64_t>(tensor.dtype));
    for (const Index extent : tensor.shape) {
        mix(hash, static_cast<std::uint64_t>(extent));
    }
    return hash;
}

void add(InputDigest& digest, std::uint64_t tensor, const catalogue::Piece& piece) {
    mix(digest.value, tensor);
    ByteWriter encoded;
    encoded.put(piece);
    for (const std::byte byte : encoded.take()) {
        mix(digest.value, static_cast<std::uint64_t>(byte));
    }
    digest.has_all_checksums = digest.has_all_checksums && piece.crc32 != 0;
}

}  // namespace

std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue) {
    std::vector<InputDigest> digests(catalogue.files.size(), {kFnvBasis});
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        const std::uint64_t hash = hash_of(tensor);
        for (const catalogue::Piece& piece : tensor.pieces) {
            add(digests.at(piece.file), hash, piece);
        }
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        add(digests.at(shard.piece.file), hash_of(shard), shard.piece);
    }
    return digests;
}

}  // namespace shardweld::app
