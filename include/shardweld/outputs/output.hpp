// Where each output tensor lies: files, headers, offsets. The interface of an output format.
// Pure: depends only on the target list, dtypes and the size limit, never on ranks, strategy or
// file system.
#pragma once

#include <string>
#include <vector>

#include "shardweld/core/dtype.hpp"
#include "shardweld/core/index.hpp"

namespace shardweld::outputs {

enum class OutputFormat { safetensors, hdf5 };

/// A tensor to be written, as outputs see it.
struct OutputTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;

    [[nodiscard]] Bytes bytes() const;
};

/// One output file: its header and its tensors.
struct OutputFile {
    std::string name;  ///< "model-00001-of-00003.safetensors"
    /// safetensors: everything before the first tensor byte; hdf5: the text of /__config__.
    std::string header;
    Bytes header_offset = 0;             ///< from the start of the file
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
    OutputFormat format = OutputFormat::safetensors;
    /// False while a library still has to tell offsets and sizes: they are estimates until the
    /// files are created.
    bool is_settled = true;
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

/// The same in one file of the given name (which may have a directory in front), without an index.
Placement place_in_one_file(const std::vector<OutputTensor>& tensors, const std::string& file_name);

/// Puts another placement behind `placement`; its tensors are counted on.
void append(Placement& placement, Placement more);

/// HDF5 files, packed as above: one contiguous dataset at the root for each tensor, and
/// `/__config__`. The library decides where raw data lies, so offsets and sizes are estimates
/// (is_settled is false). Error(unsupported) for names that cannot be links at the root ("", ".",
/// with '/' or a zero byte, or kConfigDataset). Format: docs/formats/hdf5.md.
Placement place_hdf5(const std::vector<OutputTensor>& tensors, Bytes max_shard_size);

/// Where a library put the raw data of one file.
struct RawOffsets {
    std::vector<Bytes> tensors;  ///< in the order of OutputFile::tensors
    Bytes header = 0;
    Bytes file_size = 0;
    friend bool operator==(const RawOffsets&, const RawOffsets&) = default;
};

/// Puts the truth in the place of estimates. Pure; Error(io) unless all tensors and the header lie
/// inside the file and apart from each other.
void settle(Placement& placement, std::size_t file, const std::vector<OutputTensor>& tensors,
            const RawOffsets& raw);

/// The same of a settled placement, by file; empty for formats that settle their own.
std::vector<RawOffsets> raw_offsets(const Placement& placement);

/// HDF5 files hold config.json too; others stay as they are.
void embed_config(Placement& placement, const std::string& text);

/// The dataset that holds config.json.
inline constexpr const char* kConfigDataset = "__config__";

/// One of the two.
Placement place(OutputFormat format, const std::vector<OutputTensor>& tensors,
                Bytes max_shard_size);

}  // namespace shardweld::outputs
