// Where a zip's central directory lies, as the records at its end say.
// Knows nothing of entries.
#pragma once

#include <string>

#include "core/index.hpp"

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

}  // namespace shardweld::formats
