#include "input_digests.hpp"

#include "catalogue/catalogue.hpp"
#include "core/fingerprint.hpp"

namespace shardweld::app {

namespace {

/// Tensors and shards have the same fields.
template <typename Tensor>
std::uint64_t hash_of(const Tensor& tensor) {
    Fingerprint print;
    print.add(tensor.name);
    print.add(static_cast<std::uint64_t>(tensor.dtype));
    for (const Index extent : tensor.shape) {
        print.add(static_cast<std::uint64_t>(extent));
    }
    return print.value();
}

/// What one file's metadata say, as it is read.
struct FileSays {
    Fingerprint print;
    bool has_all_checksums = true;

    void add(std::uint64_t tensor, const catalogue::Piece& piece) {
        print.add(tensor);
        for (const std::uint64_t number :
             {std::uint64_t{piece.replica}, piece.base, piece.storage_bytes,
              static_cast<std::uint64_t>(piece.patch.offset), std::uint64_t{piece.crc32}}) {
            print.add(number);
        }
        for (const layout::Axis& axis : piece.patch.axes) {
            for (const Index number : {axis.lo, axis.extent, axis.stride}) {
                print.add(static_cast<std::uint64_t>(number));
            }
        }
        has_all_checksums = has_all_checksums && piece.crc32 != 0;
    }
};

}  // namespace

std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue) {
    std::vector<FileSays> files(catalogue.files.size());
    for (const catalogue::Tensor& tensor : catalogue.tensors) {
        const std::uint64_t hash = hash_of(tensor);
        for (const catalogue::Piece& piece : tensor.pieces) {
            files.at(piece.file).add(hash, piece);
        }
    }
    for (const catalogue::Shard& shard : catalogue.shards) {
        files.at(shard.piece.file).add(hash_of(shard), shard.piece);
    }
    std::vector<InputDigest> digests;
    for (const FileSays& file : files) {
        digests.push_back({file.print.value(), file.has_all_checksums});
    }
    return digests;
}

}  // namespace shardweld::app
