// What the metadata of a checkpoint's files say, in one number for each file: a file of the same
// size and time that holds something else is known by it. Pure; knows catalogues.
#pragma once

#include <cstdint>
#include <vector>

namespace shardweld::catalogue {
struct Catalogue;
}  // namespace shardweld::catalogue

namespace shardweld::app {

struct InputDigest {
    /// FNV-1a over names, types, shapes, places and CRC-32 of the tensors in the file: against
    /// accidents, not against intent.
    std::uint64_t value = 0;
    bool has_all_checksums = true;  ///< every storage in it has a CRC-32
    friend bool operator==(const InputDigest&, const InputDigest&) = default;
};

/// By the catalogue's files; all pieces must be located. Linear in the pieces.
std::vector<InputDigest> digests_of(const catalogue::Catalogue& catalogue);

}  // namespace shardweld::app
