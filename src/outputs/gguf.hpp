// GGUF files, which hold the metadata of a model beside its tensors: the format is made for one
// model.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/index.hpp"
#include "core/metadata.hpp"

#include "format.hpp"

namespace shardweld::outputs {

/// How the names of such files end.
inline constexpr std::string_view kGgufEnding = ".gguf";

/// Files with this metadata, whose tensors are mostly of `encoding`, one of GGML's types; `file` is
/// the file's name, "" for "model-q8_0.gguf" and the like.
std::shared_ptr<const OutputFormat> gguf_format_of(Encoding encoding, Metadata metadata,
                                                   std::string file = {});

/// `general.name` of a model that is called "organisation/model-name": "Model Name".
std::string gguf_title(std::string_view name_or_path);

/// How large a tensor is.
struct GgufSize {
    Index n_elements = 0;
    Index n_experts = 0;  ///< that it holds one after another; 0: it is no stack
};
/// `general.size_label`: "6.7B", or of models with experts "8x7.2B".
std::string gguf_size_label(std::span<const GgufSize> tensors);

}  // namespace shardweld::outputs
