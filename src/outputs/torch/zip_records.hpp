// Zip archives as torch writes them, record by record: stored entries without times, data aligned
// to 64 bytes from the archive's first byte.
// Knows nothing of what the entries hold. Sources: PKWARE APPNOTE 6.3.10; torch 2.15
// caffe2/serialize/inline_container.cc (padding in an extra field "FB").
#pragma once

#include <string>

#include "core/index.hpp"

namespace shardweld::outputs::torch {

/// An entry; offsets count from the archive's first byte.
struct ZipRecord {
    std::string name;
    Bytes offset = 0;  ///< of its local header
    Bytes size = 0;
    std::uint32_t crc32 = 0;  ///< 0: not stated

    [[nodiscard]] Bytes data() const;  ///< where its bytes begin
    [[nodiscard]] Bytes end() const;   ///< where the next header, or the directory, begins
    [[nodiscard]] Bytes central_size() const;
};

/// What stands in front of an entry's data, all the way to it.
std::string zip_header(const ZipRecord& entry);
/// What stands behind the data. Its checksum are the four bytes from kDescriptorChecksum on.
std::string zip_descriptor(const ZipRecord& entry);
inline constexpr Bytes kDescriptorChecksum = 4;

/// An entry's record in the central directory; its checksum are the four bytes from
/// kCentralChecksum on.
std::string zip_central(const ZipRecord& entry);
inline constexpr Bytes kCentralChecksum = 16;

/// What ends an archive whose central directory lies in [begin, end) and has so many entries.
std::string zip_end(Bytes begin, Bytes end, std::uint64_t n_entries);

}  // namespace shardweld::outputs::torch
