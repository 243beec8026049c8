// torch.distributed.checkpoint's `.metadata`: which tensors exist and where their chunks lie.
// Knows DCP's classes; nothing of Megatron's or verl's keys.
// Sources: torch 2.15 torch/distributed/checkpoint/metadata.py, filesystem.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/core/index.hpp"
#include "shardweld/io/file.hpp"

namespace shardweld::formats {

struct DcpChunk {
    std::vector<Index> offsets;
    std::vector<Index> sizes;
    std::uint32_t file = 0;  ///< index into DcpMetadata::files
    Bytes offset = 0;        ///< of the blob in that file
    Bytes length = 0;
};

struct DcpTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<DcpChunk> chunks;
};

/// Byte objects (extra state, RNG): name, file and length only.
struct DcpObject {
    std::string name;
    Bytes length = 0;
};

struct DcpMetadata {
    std::vector<std::string> files;  ///< relative paths, sorted naturally; checked to stay inside
                                     ///< the directory (no absolute path, no "..", no empty name)
    std::vector<DcpTensor> tensors;  ///< sorted by name; chunks sorted by offsets
    std::vector<DcpObject> objects;
    bool has_transforms =
        false;  ///< compressed streams (zstd): refused when a needed tensor has them
    std::map<std::string, std::vector<std::string>>
        paths;  ///< planner_data: flattened name -> path, when present

    /// Parses the file. Error(corrupt) on malformed data, chunks outside their tensor, a chunk
    /// without storage, overlapping or missing chunks (the chunks of a tensor must tile it exactly
    /// once), negative or overflowing numbers, paths leaving the directory; tensor-level transforms
    /// are Error(unsupported).
    static DcpMetadata read(const io::fs::path& path);
};

}  // namespace shardweld::formats
