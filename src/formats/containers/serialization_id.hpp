// torch's fingerprint of an archive, `.data/serialization_id`, against the archive's directory.
// Knows how torch.save makes it; nothing of what the records hold.
// Source: torch 2.1 to 2.15 caffe2/serialize/inline_container.cc (ostream_write_func,
// PyTorchStreamWriter::writeSerializationId).
#pragma once

#include <string>

#include "range_reader.hpp"

namespace shardweld::formats {

class ZipArchive;

/// The fingerprint's second half is a hash over the CRC-32 of all records in the order in which
/// they were written, and torch numbers them as it writes. So it shows records that were exchanged
/// or replaced even where each one's CRC-32 was made to fit. Reads 40 bytes near the archive's end.
/// Says what does not fit the directory; "" when all does, and for archives without a fingerprint
/// (torch before 2.1) or without CRC-32s, and of those that another writer made of torch's and gave
/// the old fingerprint, unless two records in each other's places are all that is wrong.
std::string changed_since_save(const ZipArchive& archive, RangeReader& reader);

}  // namespace shardweld::formats
