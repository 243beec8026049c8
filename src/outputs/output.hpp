// Where each output tensor lies: files, headers, offsets. What an output format makes (format.hpp)
// and the rest of a merge sees of it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"
#include "core/shared_list.hpp"
#include "core/shared_string.hpp"
#include "numeric/encoding.hpp"

namespace shardweld::outputs {

class OutputFormat;

/// A tensor to be written, as outputs see it.
struct OutputTensor {
    SharedName name;
    DType dtype = DType::f32;
    SharedList<Index> shape;
    /// Elements of one strip, where the tensor is made strip by strip together with another; else
    /// 0.
    Index strip = 0;
    bool is_made_with_last = false;         ///< that is the one before it, in the same file
    std::optional<Encoding> encoding = {};  ///< of what it holds codes

    [[nodiscard]] Bytes bytes() const;
};

using OutputTensors = std::vector<OutputTensor>;

/// One output file: its header and its tensors.
struct PlacedFile {
    std::string name;                    ///< "model-00001-of-00003.safetensors"
    std::string header;                  ///< bytes beside the tensors' that every rank knows
    Bytes header_offset = 0;             ///< from the start of the file
    std::vector<std::uint32_t> tensors;  ///< indices into the tensor list, in file order
    Bytes size = 0;                      ///< all of it
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

/// The files of an output, and the place of each tensor in them.
struct Placement {
    const OutputFormat* format = nullptr;  ///< that makes the files
    /// False while a library still has to tell offsets and sizes: they are estimates until the
    /// files are created.
    bool is_settled = true;
    std::vector<PlacedFile> files;
    std::vector<Slot> slots;  ///< one per tensor
    std::vector<SideFile> side_files;
    Bytes tensor_bytes = 0;

    [[nodiscard]] Bytes total_bytes() const;
    /// Tensors of the file that has most.
    [[nodiscard]] std::size_t most_tensors() const;

    /// All but the format, which is no value.
    static constexpr auto fields = [](auto& self) {
        return std::tie(self.is_settled, self.files, self.slots, self.side_files,
                        self.tensor_bytes);
    };
};

/// Files of at most `limit` tensor bytes (a larger tensor stands alone), called modelENDING or
/// model-00001-of-0000NENDING with an index, each with its tensors by element size descending,
/// then in their own order. Slots name files; headers, sizes and offsets are left to the format.
Placement pack(const OutputTensors& tensors, Bytes limit, std::string_view ending);

/// Puts a file's tensors one behind the other, from its size on, which becomes the end of the last.
void put_in_order(Placement& placement, PlacedFile& file, const OutputTensors& tensors);

/// One safetensors file of the given name (which may have a directory in front), without an index.
Placement place_in_one_file(const OutputTensors& tensors, const std::string& file_name);

/// Puts another placement behind `placement`; its tensors are counted on.
void append(Placement& placement, Placement more);

}  // namespace shardweld::outputs
