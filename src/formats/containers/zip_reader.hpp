// Reading a zip's directory through a RangeReader, so that its caller shares the pages read.
// Knows nothing of what the entries hold.
#pragma once

#include "shardweld/formats/containers/zip.hpp"

#include "range_reader.hpp"

namespace shardweld::formats {

/// Throws Error(corrupt).
[[noreturn]] void fail_zip(const std::string& message);

/// Of an entry in the central directory, without its name and fields.
inline constexpr Bytes kCentralBytes = 46;

/// Where the central directory lies, relative to the archive.
struct ZipDirectory {
    Bytes offset = 0;
    Bytes size = 0;
    Bytes count = 0;  ///< of entries; each has its least number of bytes in `size`
};

/// Error(corrupt) when there is none or it does not lie inside the archive.
ZipDirectory find_zip_directory(RangeReader& reader);

/// As ZipArchive::read, over the reader's range.
ZipArchive read_zip(RangeReader& reader);

}  // namespace shardweld::formats
