// Where torch's writer puts an entry's data, told without reading the entry's own header.
// Pure arithmetic. Source: torch 2.15 caffe2/serialize/inline_container.cc (getPadding) and
// third_party/miniz-3.0.2/miniz.c (data descriptors).
#pragma once

#include <optional>

#include "core/index.hpp"

namespace shardweld::formats {

/// Offset of the data of an entry whose local header lies at `header`, relative to the archive;
/// `next` is where the next header, or the directory, begins. Counted forward from the header
/// (torch pads it so that data begins at a multiple of 64) and backward from `next` (behind the
/// data lies its descriptor); nullopt unless both agree to the byte.
std::optional<Bytes> torch_data_offset(Bytes header, Bytes name_bytes, Bytes size, Bytes next);

}  // namespace shardweld::formats
