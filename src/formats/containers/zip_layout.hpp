// Where things lie in a zip: its central directory, as the records at its end say, and, told
// without reading an entry's own header, the data of an entry that torch's writer made. Source:
// torch 2.15 caffe2/serialize/inline_container.cc (getPadding) and third_party/miniz-3.0.2/miniz.c
// (data descriptors).
#pragma once

#include <optional>
#include <string>

#include "core/index.hpp"

#include "range_reader.hpp"

namespace shardweld::formats {

/// Offset of the data of an entry whose local header lies at `header`, relative to the archive;
/// `next` is where the next header, or the directory, begins. Counted forward from the header
/// (torch pads it so that data begins at a multiple of 64) and backward from `next` (behind the
/// data lies its descriptor); nullopt unless both agree to the byte.
std::optional<Bytes> torch_data_offset(Bytes header, Bytes name_bytes, Bytes size, Bytes next);

/// Throws Error(corrupt).
[[noreturn]] void fail_zip(const std::string& message);

/// Bytes of an entry in the central directory, without its name and fields.
inline constexpr Bytes kCentralBytes = 46;

/// Where the central directory lies, relative to the archive.
struct ZipDirectory {
    Bytes offset = 0;
    Bytes size = 0;
    Bytes count = 0;  ///< of entries; each has its least number of bytes in `size`
};

/// Error(corrupt) when there is none or it does not lie inside the archive.
ZipDirectory find_zip_directory(RangeReader& reader);

}  // namespace shardweld::formats
