// The zip container of torch.save, read safely at any place of a file.
// Format: PKWARE APPNOTE 6.3.10 (zip64); torch's writer: torch 2.1 to 2.15,
// caffe2/serialize/inline_container.cc (ostream_write_func, getPadding,
// PyTorchStreamWriter::writeSerializationId), third_party/miniz-3.0.2/miniz.c (data descriptors).
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/index.hpp"

#include "range_reader.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::formats {

/// What the names of records with tensors' bytes begin with, behind the archive's prefix.
inline constexpr std::string_view kStorages = "data/";

/// One stored entry: where its raw bytes lie in the file (absolute).
struct ZipEntry {
    Bytes offset = 0;
    Bytes size = 0;
    std::uint32_t crc32 = 0;
    /// Where that is stated: in the header or, as torch has it, in the descriptor behind the data,
    /// and in the directory. Absolute; the former is not looked at.
    std::array<Bytes, 2> sums = {};
};

struct NamedZipEntry {
    std::string_view name;  ///< as written
    ZipEntry entry;
};

/// The entries of the archive occupying [begin, begin + length) of a file. Names are kept as
/// written. The offsets in the archive are relative to `begin`. Everything is checked:
/// end-of-central-directory present, entries inside the archive, local headers agreeing with the
/// central directory, no duplicate names, method 0 only (Error(unsupported) for compressed or
/// encrypted entries), no allocation beyond the directory's real size. Error(corrupt) otherwise.
/// A local header is read to find where its data begins, but for entries laid out as torch's writer
/// does: there the directory alone tells it, twice over (torch_data_offset). Owns the names.
class ZipArchive {
  public:
    std::vector<NamedZipEntry> entries;  ///< in the order of the file
    std::string prefix;  ///< first path component of data.pkl, with '/', e.g. "archive/"; "" when
                         ///< there is no */data.pkl
    bool is_as_torch_lays_out = true;  ///< every entry is where torch's writer puts it

    static ZipArchive read(const io::InputFile& file, Bytes begin, Bytes length);
    /// A name behind the prefix; "" for one that has another.
    [[nodiscard]] std::string_view own_name(std::string_view name) const {
        return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
    }
    /// The entry that has this name behind the prefix. Linear.
    [[nodiscard]] const ZipEntry* find(std::string_view own) const;

    ZipArchive() = default;
    ZipArchive(ZipArchive&&) = default;
    ZipArchive& operator=(ZipArchive&&) = default;
    ZipArchive(const ZipArchive&) = delete;
    ZipArchive& operator=(const ZipArchive&) = delete;
    ~ZipArchive() = default;

  private:
    friend ZipArchive read_zip(RangeReader& reader);
    std::vector<std::byte> names_;  // the central directory
};

/// Offset of the data of an entry whose local header lies at `header`, relative to the archive;
/// `next` is where the next header, or the directory, begins. Counted forward from the header
/// (torch pads it so that data begins at a multiple of 64) and backward from `next` (behind the
/// data lies its descriptor); nullopt unless both agree to the byte.
std::optional<Bytes> torch_data_offset(Bytes header, Bytes name_bytes, Bytes size, Bytes next);

/// The archive in the reader's range, as ZipArchive::read gives it; its caller shares the pages
/// read.
ZipArchive read_zip(RangeReader& reader);

/// Error(corrupt) naming the record unless its bytes have the CRC-32 that is stated; 0 states none
/// (torch.serialization.set_crc32_options(False)).
void require_crc32(std::string_view record, ByteView bytes, std::uint32_t stated);

/// Where torch's fingerprint lies, and the records whose CRC-32s its digits follow from, in their
/// order; nullopt where there is none, or where a record has no CRC-32.
struct FingerprintPlace {
    ZipEntry record;
    Bytes digits = 0;
    std::vector<ZipEntry> of;
};
std::optional<FingerprintPlace> fingerprint_in(const ZipArchive& archive);

/// The digits for these CRC-32s.
std::string fingerprint_of(const std::vector<std::uint32_t>& sums);

/// torch's fingerprint of an archive, `.data/serialization_id`, against the archive's directory.
/// The fingerprint's second half is a hash over the CRC-32 of all records in the order in which
/// they were written, and torch numbers them as it writes. So it shows records that were exchanged
/// or replaced even where each one's CRC-32 was made to fit. Reads 40 bytes near the archive's end.
/// Says what does not fit the directory; "" when all does, and for archives without a fingerprint
/// (torch before 2.1) or without CRC-32s, and of those that another writer made of torch's and gave
/// the old fingerprint, unless two records in each other's places are all that is wrong.
std::string changed_since_save(const ZipArchive& archive, RangeReader& reader);

}  // namespace shardweld::formats
