// Safetensors files as a reference model has them (--layout_like): which tensor lies in which file,
// in which order, and the bytes of headers and index.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/dtype.hpp"
#include "core/index.hpp"

#include "format.hpp"

namespace shardweld::outputs {

struct ReferenceTensor {
    std::string name;
    DType dtype = DType::f32;
    std::vector<Index> shape;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.dtype, self.shape);
    };
};

struct ReferenceFile {
    std::string name;    ///< without a directory; ends in ".safetensors"
    std::string header;  ///< every byte before the tensors'; "": it is no header for them
    std::vector<ReferenceTensor> tensors;  ///< in the order of their bytes, which fill the file

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.name, self.header, self.tensors);
    };
};

/// The files of a reference. No name is in two of them.
struct ReferenceLayout {
    std::string directory;  ///< for messages
    std::vector<ReferenceFile> files;
    std::optional<SideFile> index;

    static constexpr auto fields = [](auto& self) {
        return std::tie(self.directory, self.files, self.index);
    };
};

/// Tensors that the reference has lie in its files and in its order. A file that has the
/// reference's names, dtypes and shapes gets its header, byte for byte; others get the header of
/// safetensors_format. What the reference lacks lies behind the tensors of its only file, or in
/// files of their own behind several (model-extra.safetensors). Several files have an index by
/// the reference's name, with its bytes where they are true. Errors as of safetensors_format.
std::shared_ptr<const Format> format_like(std::shared_ptr<const ReferenceLayout> reference);

/// In what a model differs from the reference it is laid out by.
struct LayoutAgreement {
    bool has_common = false;             ///< they share a tensor's name
    std::vector<std::string> kept;       ///< files with the reference's header
    std::vector<std::string> own;        ///< the other files
    std::vector<std::string> unwritten;  ///< files of the reference without a tensor of the model
    std::vector<std::string> extra;      ///< tensors that the reference lacks
    std::vector<std::string> lacking;    ///< its tensors that the model lacks
    std::vector<std::string> shapes;     ///< tensors of other shapes
    std::vector<std::string> dtypes;     ///< tensors of the same shape and another dtype
    std::optional<DType> own_dtype;      ///< of the first of these,
    std::optional<DType> their_dtype;    ///< and in the reference
};

/// `placement` is format_like's of these tensors; files in a directory of their own, an adapter's,
/// do not count.
LayoutAgreement agreement(const ReferenceLayout& reference,
                          const std::vector<OutputTensor>& tensors, const Placement& placement);

}  // namespace shardweld::outputs
