// GGUF files, which hold the metadata of a model beside its tensors: the format is made for one
// model. Knows keys and values; nothing of what they mean.
#pragma once

#include <memory>

#include "shardweld/core/metadata.hpp"
#include "shardweld/outputs/format.hpp"

namespace shardweld::outputs {

/// Files with this metadata, whose tensors are mostly of `encoding`, one of GGML's types.
std::shared_ptr<const Format> gguf_format_of(Encoding encoding, Metadata metadata);

/// What `general.file_type` says of such a file (gguf-py 0.19, LlamaFileType).
std::uint32_t gguf_file_type(Encoding encoding);

}  // namespace shardweld::outputs
