// torch.distributed.checkpoint's `.metadata`, and ByteCheckpoint's, made after it: which tensors
// exist and where their chunks lie.
// Sources: torch 2.15 torch/distributed/checkpoint/metadata.py, filesystem.py; bytecheckpoint 0.0.2
// bytecheckpoint/checkpointer/meta_type.py.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "formats/catalogue_words.hpp"

#include "torch_file.hpp"

namespace shardweld::formats {

class PickleArena;

/// Compact: there are millions of them. The numbers are DcpMetadata's.
struct DcpChunk {
    std::span<const Index> offsets;
    std::span<const Index> sizes;
    std::uint32_t file = 0;  ///< index into DcpMetadata::files
    std::uint32_t view = 0;  ///< index into DcpMetadata::views, if there are any
    Bytes offset = 0;        ///< of the blob in that file
    Bytes length = 0;
};

/// A tensor that `.metadata` names, with its chunks.
struct DcpTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<DcpChunk> chunks;
};

/// Byte objects (extra state, RNG): each is a file of its own, by torch.save, within a shard file.
struct DcpObject {
    std::string name;
    Bytes length = 0;        ///< 0: it is not stored, or not in one place
    std::uint32_t file = 0;  ///< index into DcpMetadata::files
    Bytes offset = 0;
};

/// All that is read of one `.metadata` file.
struct DcpMetadata {
    /// Sorted naturally; paths are checked to stay inside the directory (no absolute path, no "..",
    /// no empty name), and the sizes are where the last item of each ends.
    std::vector<File> files;
    std::string checkpoint_id;       ///< the directory at save time as it was called; "" if untold
    std::vector<DcpTensor> tensors;  ///< sorted by name; chunks sorted by offsets
    /// How chunks view their blobs where these are bare storages; empty where they are archives.
    std::vector<StoredTensor> views;
    std::vector<DcpObject> objects;
    bool has_transforms = false;  ///< some byte object is stored as a compressed stream (zstd)
    std::map<std::string, std::vector<std::string>>
        paths;  ///< planner_data: flattened name -> path, when present
    std::shared_ptr<const PickleArena> numbers;  ///< what the chunks view

    /// Parses the file; time near linear in its size. Error(corrupt) on malformed data, chunks
    /// outside their tensor, a chunk without storage, negative or overflowing numbers, paths
    /// leaving the directory; Error(unsupported) naming the tensor for an unknown dtype or a
    /// transformed (compressed) tensor. Messages name tensor and chunk; context names the file.
    /// Whether the chunks tile their tensors is left to those who use them: optimizer state of old
    /// Megatron cores does not, and is not needed.
    static DcpMetadata read(const fs::path& path);
};

/// Whether a `.metadata` begins as ByteCheckpoint's do, with its class. Reads a few bytes; false
/// where there is no such file.
bool is_bytecheckpoint(const fs::path& path);

}  // namespace shardweld::formats
