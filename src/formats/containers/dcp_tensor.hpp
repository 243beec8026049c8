// A tensor of torch.distributed.checkpoint as chunks, and whether these make it up.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

namespace shardweld::formats {

/// Compact: there are millions of them. The numbers are DcpMetadata's.
struct DcpChunk {
    std::span<const Index> offsets;
    std::span<const Index> sizes;
    std::uint32_t file = 0;  ///< index into DcpMetadata::files
    std::uint32_t view = 0;  ///< index into DcpMetadata::views, if there are any
    Bytes offset = 0;        ///< of the blob in that file
    Bytes length = 0;
};

struct DcpTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;
    std::vector<DcpChunk> chunks;
};

/// Checks that the chunks cover the tensor exactly once. Error(corrupt) naming the tensor and the
/// chunk or place where two overlap or none is. Near linear in the number of chunks for tilings
/// that can be cut apart axis by axis (all grids and row splits); Error(unsupported) for large
/// irregular ones.
void check_tiling(const DcpTensor& tensor);

/// Byte objects (extra state, RNG): each is a file of its own, by torch.save, within a shard file.
struct DcpObject {
    std::string name;
    Bytes length = 0;        ///< 0: it is not stored, or not in one place
    std::uint32_t file = 0;  ///< index into DcpMetadata::files
    Bytes offset = 0;
};

}  // namespace shardweld::formats
