// GGUF, version 3, little-endian. Source: ggml's docs/gguf.md, gguf-py 0.19 (gguf_writer.py).
#pragma once

#include "outputs/format.hpp"

namespace shardweld::outputs {

/// One file; tensors in their order, each at a multiple of 32 behind the metadata. This one has no
/// metadata (see gguf_format_of) and places nothing.
const Format& gguf_format();

}  // namespace shardweld::outputs
