// Where each output tensor lies: files, headers, offsets. The interface of an output format.
// Pure: depends only on the target list, dtypes and the size limit, never on ranks, strategy or
// file system.
#pragma once

#include <string>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/core/index.hpp"

namespace shardweld::outputs {

/// A tensor to be written, as outputs see it.
struct OutputTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;

    [[nodiscard]] Bytes bytes() const;
};

/// One output file: its header and the tensors behind it, without gaps.
struct OutputFile {
    std::string name;                    ///< "model-00001-of-00003.safetensors"
    std::string header;                  ///< everything before the first tensor byte
    std::vector<std::uint32_t> tensors;  ///< indices into the tensor list, in file order
    Bytes size = 0;                      ///< header and data
};

/// Where a tensor's bytes begin.
struct Slot {
    std::uint32_t file = 0;
    Bytes offset = 0;  ///< from the start of the file
};

/// A small file written whole beside the tensors (the index).
struct SideFile {
    std::string name;
    std::string text;
};

struct Placement {
    std::vector<OutputFile> files;
    std::vector<Slot> slots;  ///< one per tensor
    std::vector<SideFile> side_files;
    Bytes tensor_bytes = 0;

    [[nodiscard]] Bytes total_bytes() const;
};

/// Safetensors files as transformers loads them. `tensors` are in natural order of names; they are
/// packed greedily into files of at most `max_shard_size` tensor bytes (a larger tensor stands
/// alone); inside a file by element size descending, then natural name. Headers are padded with
/// spaces so that data begins at a multiple of 4096. Several files get
/// model.safetensors.index.json. Error(unsupported) when a header would exceed the format's 100 MB
/// limit. Format: safetensors 0.8, README and tensor.rs.
Placement place_safetensors(const std::vector<OutputTensor>& tensors, Bytes max_shard_size);

}  // namespace shardweld::outputs
