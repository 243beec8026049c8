#include "zip.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/crc32.hpp"
#include "core/text.hpp"
#include "io/cursor.hpp"
#include "io/input_file.hpp"
#include "shardweld/error.hpp"

#include "duplicate_names.hpp"

namespace shardweld::formats {

namespace {

constexpr Bytes kAlignment = 64;
constexpr Bytes kHeaderBytes = 30;
constexpr Bytes kFieldHead = 4;    // id and size of an extra field
constexpr Bytes kDescriptor = 16;  // signature, checksum, two sizes
constexpr Bytes kDescriptor64 = 24;
constexpr Bytes kLargest32 = 0xffffffff;

// The zip64 field comes before the padding: two sizes, the header's offset, as far as they need it.
Bytes zip64_field(Bytes header, Bytes size) {
    if (size < kLargest32 && header < kLargest32) {
        return 0;
    }
    return kFieldHead + (size >= kLargest32 ? 16 : 0) + (header >= kLargest32 ? 8 : 0);
}

}  // namespace

std::optional<Bytes> torch_data_offset(Bytes header, Bytes name_bytes, Bytes size, Bytes next) {
    const Bytes field = zip64_field(header, size);
    const Bytes fixed = kHeaderBytes + name_bytes + kFieldHead + field;
    if (next < header || fixed > next - header) {
        return std::nullopt;
    }
    const Bytes start = header + fixed;
    const Bytes offset = (start + kAlignment - 1) / kAlignment * kAlignment;
    const Bytes descriptor = field == 0 ? kDescriptor : kDescriptor64;
    const bool agrees =
        offset <= next && size <= next - offset && next - offset - size == descriptor;
    return agrees ? std::optional(offset) : std::nullopt;
}

namespace {

[[noreturn]] void fail_zip(const std::string& message) {
    throw Error(ErrorCode::corrupt, "zip: " + message);
}

/// Bytes of an entry in the central directory, without its name and fields.
constexpr Bytes kCentralBytes = 46;

/// Where the central directory lies, relative to the archive.
struct ZipDirectory {
    Bytes offset = 0;
    Bytes size = 0;
    Bytes count = 0;  ///< of entries; each has its least number of bytes in `size`
};

// Signatures and record sizes, APPNOTE 6.3.10 sections 4.3.12 and 4.3.14 to 4.3.16.
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr Bytes kEndBytes = 22;
constexpr Bytes kEnd64Bytes = 56;
constexpr Bytes kLocator64Bytes = 20;
constexpr Bytes kMaxComment = 65535;
constexpr std::uint16_t kInZip64Count = 0xffff;

// Position of the end record: the last one whose comment ends where the archive does.
std::optional<Bytes> find_end(RangeReader& reader, Bytes span) {
    const Bytes first = reader.length() - span;
    const auto bytes = reader.at(first, span, "the end of the archive");
    for (Bytes i = span - kEndBytes + 1; i-- > 0;) {
        if (bytes[i] != std::byte{'P'}) {
            continue;
        }
        io::Cursor cursor(bytes.subspan(i));
        if (cursor.get<std::uint32_t>("end record") != kEndSignature) {
            continue;
        }
        cursor.seek(kEndBytes - 2, "end record");
        if (i + kEndBytes + cursor.get<std::uint16_t>("end record") == span) {
            return first + i;
        }
    }
    return std::nullopt;
}

Bytes locate_end(RangeReader& reader) {
    if (reader.length() < kEndBytes) {
        fail_zip("the file is truncated: " + std::to_string(reader.length()) +
                 " bytes cannot hold an archive");
    }
    // Few archives have a comment: the last bytes are enough and are read anyway.
    for (const Bytes span : {kEdgeBytes, kMaxComment + kEndBytes}) {
        if (const auto found = find_end(reader, std::min(span, reader.length()))) {
            return *found;
        }
    }
    fail_zip(
        "the file is truncated: no end-of-central-directory record at its end; it was cut short "
        "or is still being written");
}

// The zip64 end record named by the locator in front of the end record at `end`.
ZipDirectory read_directory64(RangeReader& reader, Bytes end, const ZipDirectory& plain) {
    if (end < kLocator64Bytes) {
        return plain;
    }
    io::Cursor locator(reader.at(end - kLocator64Bytes, kLocator64Bytes, "the zip64 locator"));
    if (locator.get<std::uint32_t>("zip64 locator") != kLocator64Signature) {
        return plain;
    }
    locator.get<std::uint32_t>("zip64 locator");
    const auto where = locator.get<std::uint64_t>("zip64 locator");
    io::Cursor record(reader.at(where, kEnd64Bytes, "the zip64 end record"));
    if (record.get<std::uint32_t>("zip64 end record") != kEnd64Signature) {
        fail_zip("no zip64 end record at offset " + std::to_string(where));
    }
    record.seek(32, "zip64 end record");
    ZipDirectory directory;
    directory.count = record.get<std::uint64_t>("zip64 end record");
    directory.size = record.get<std::uint64_t>("zip64 end record");
    directory.offset = record.get<std::uint64_t>("zip64 end record");
    return directory;
}

/// Error(corrupt) when there is none or it does not lie inside the archive.
ZipDirectory find_zip_directory(RangeReader& reader) {
    const Bytes end = locate_end(reader);
    io::Cursor record(reader.at(end, kEndBytes, "the end record"));
    record.seek(10, "end record");
    ZipDirectory directory;
    directory.count = record.get<std::uint16_t>("end record");
    directory.size = record.get<std::uint32_t>("end record");
    directory.offset = record.get<std::uint32_t>("end record");
    if (directory.count == kInZip64Count || directory.size == kLargest32 ||
        directory.offset == kLargest32) {
        directory = read_directory64(reader, end, directory);
    }
    if (directory.offset > end || directory.size > end - directory.offset) {
        fail_zip("the central directory (" + std::to_string(directory.size) + " bytes at offset " +
                 std::to_string(directory.offset) + ") lies outside the archive of " +
                 std::to_string(reader.length()) + " bytes");
    }
    if (directory.count > directory.size / kCentralBytes) {
        fail_zip("the central directory claims " + std::to_string(directory.count) +
                 " entries in " + std::to_string(directory.size) + " bytes");
    }
    return directory;
}

// Signatures and record sizes, APPNOTE 6.3.10 sections 4.3.7 and 4.3.12.
constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint16_t kZip64Extra = 1;
constexpr Bytes kLocalSum = 14;
constexpr Bytes kCentralSum = 16;
constexpr Bytes kDescriptorSum = 4;  // behind its signature
constexpr unsigned kEncrypted = 1;
constexpr unsigned kHasDescriptor = 8;

std::string in_quotes(std::string_view name) {
    return "'" + printable(name) + "'";
}

struct Central {
    std::string_view name;
    unsigned flags = 0;
    std::uint16_t method = 0;
    std::uint32_t crc = 0;
    Bytes size = 0;
    Bytes header = 0;  ///< of the local header
    Bytes at = 0;      ///< of this entry in the directory
};

// Takes saturated fields from the zip64 extra field, in their fixed order.
void widen(Central& entry, Bytes& stored_size, ByteView extra) {
    io::Cursor cursor(extra);
    while (cursor.remaining() >= 4) {
        const auto id = cursor.get<std::uint16_t>("extra field");
        const auto size = cursor.get<std::uint16_t>("extra field");
        io::Cursor field(cursor.take(size, "an extra field"));
        if (id != kZip64Extra) {
            continue;
        }
        for (Bytes* const value : {&entry.size, &stored_size, &entry.header}) {
            if (*value == kLargest32) {
                *value = field.get<std::uint64_t>("the zip64 field");
            }
        }
        return;
    }
}

void check_stored(const Central& entry, Bytes stored_size) {
    if ((entry.flags & kEncrypted) != 0) {
        throw Error(ErrorCode::unsupported, "zip: entry " + in_quotes(entry.name) + " is encrypted",
                    "save the state dict again with torch.save");
    }
    if (entry.method != 0) {
        throw Error(
            ErrorCode::unsupported,
            "zip: entry " + in_quotes(entry.name) + " is compressed (method " +
                std::to_string(entry.method) + "); torch.save writes stored records only",
            "save the state dict again with it (this may be a TorchScript or repacked archive)");
    }
    if (stored_size != entry.size) {
        fail_zip("entry " + in_quotes(entry.name) + " has two sizes: " +
                 std::to_string(stored_size) + " stored, " + std::to_string(entry.size) + " plain");
    }
}

template <typename T>
T field(ByteView record, std::size_t at) {
    T value;
    std::memcpy(&value, record.subspan(at, sizeof(T)).data(), sizeof(T));
    return value;
}

Central read_central(io::Cursor& cursor) {
    constexpr std::string_view kWhat = "the central directory";
    const auto record = cursor.take(kCentralBytes, kWhat);
    if (field<std::uint32_t>(record, 0) != kCentralSignature) {
        fail_zip("the central directory has a wrong signature at byte " +
                 std::to_string(cursor.position() - kCentralBytes));
    }
    Central entry;
    entry.at = cursor.position() - kCentralBytes;
    entry.flags = field<std::uint16_t>(record, 8);
    entry.method = field<std::uint16_t>(record, 10);
    entry.crc = field<std::uint32_t>(record, 16);
    Bytes stored_size = field<std::uint32_t>(record, 20);
    entry.size = field<std::uint32_t>(record, 24);
    const auto name_bytes = field<std::uint16_t>(record, 28);
    const auto extra_bytes = field<std::uint16_t>(record, 30);
    const auto comment_bytes = field<std::uint16_t>(record, 32);
    entry.header = field<std::uint32_t>(record, 42);
    entry.name = cursor.text(name_bytes, kWhat);
    try {
        widen(entry, stored_size, cursor.take(extra_bytes, kWhat));
    } catch (Error& error) {
        error.add_context("entry " + in_quotes(entry.name));
        throw;
    }
    cursor.take(comment_bytes, kWhat);
    check_stored(entry, stored_size);
    return entry;
}

std::vector<Central> read_centrals(ByteView bytes, const ZipDirectory& directory) {
    io::Cursor cursor(bytes, directory.offset);
    std::vector<Central> entries;
    entries.reserve(to_size(directory.count, "a count of entries"));
    for (Bytes i = 0; i < directory.count; ++i) {
        entries.push_back(read_central(cursor));
    }
    if (cursor.remaining() != 0) {
        fail_zip("the central directory has " + std::to_string(cursor.remaining()) +
                 " bytes behind its last entry");
    }
    return entries;
}

// Checks the local header and answers where the data begins, relative to the archive.
Bytes data_offset(RangeReader& reader, const Central& entry) {
    const std::string what = "the local header of " + in_quotes(entry.name);
    io::Cursor cursor(reader.at(entry.header, kHeaderBytes + entry.name.size(), what));
    if (cursor.get<std::uint32_t>(what) != kLocalSignature) {
        fail_zip(what + " is not at offset " + std::to_string(entry.header));
    }
    cursor.take(2, what);
    const auto flags = cursor.get<std::uint16_t>(what);
    const auto method = cursor.get<std::uint16_t>(what);
    cursor.take(8, what);
    const auto stored_size = cursor.get<std::uint32_t>(what);
    cursor.take(4, what);
    const auto name_bytes = cursor.get<std::uint16_t>(what);
    const auto extra_bytes = cursor.get<std::uint16_t>(what);
    if (method != entry.method || name_bytes != entry.name.size() ||
        cursor.text(name_bytes, what) != entry.name) {
        fail_zip(what + " disagrees with the central directory");
    }
    const bool has_size = (flags & kHasDescriptor) == 0 && stored_size != kLargest32;
    if (has_size && stored_size != entry.size) {
        fail_zip(what + " says " + std::to_string(stored_size) + " bytes, the central directory " +
                 std::to_string(entry.size));
    }
    return entry.header + kHeaderBytes + name_bytes + extra_bytes;
}

/// Whether so many bytes behind an entry are its descriptor, and the 65536 that the length of a
/// field in front of it has no bit for (seen with torch 2.15).
bool is_wrapped(Bytes behind) {
    constexpr Bytes kLongestField = 1U << 16U;
    const Bytes rest = behind % kLongestField;
    return behind >= kLongestField && (rest == 0 || rest == kDescriptor || rest == kDescriptor64);
}

void require_distinct(const std::vector<NamedZipEntry>& entries) {
    std::vector<std::string_view> names =
        collect_list<std::string_view>(entries, &NamedZipEntry::name);
    if (const auto repeated = find_duplicate(names)) {
        fail_zip("two entries with one name: " + in_quotes(names[repeated->second]));
    }
}

std::string find_prefix(const ZipArchive& archive) {
    constexpr std::string_view kPickle = "/data.pkl";
    const std::string_view* best = nullptr;
    std::ptrdiff_t best_depth = 0;
    bool is_unique = true;
    for (const auto& [name, entry] : archive.entries) {
        if (!name.ends_with(kPickle)) {
            continue;
        }
        const std::ptrdiff_t depth = std::ranges::count(name, '/');
        if (best == nullptr || depth < best_depth) {
            best = &name;
            best_depth = depth;
            is_unique = true;
        } else {
            is_unique = is_unique && depth != best_depth;
        }
    }
    if (!is_unique) {
        fail_zip("two archives in one file: more than one entry is a data.pkl");
    }
    return std::string(best == nullptr ? std::string_view()
                                       : best->substr(0, best->size() - kPickle.size() + 1));
}

}  // namespace

ZipArchive read_zip(RangeReader& reader) {
    const ZipDirectory directory = find_zip_directory(reader);
    ZipArchive archive;
    archive.names_ = reader.copy(directory.offset, directory.size, "the central directory");
    std::vector<Central> centrals = read_centrals(archive.names_, directory);
    // In the order of the file: neighbouring headers come with one read, overlaps show.
    const auto by_place = [](const Central& a, const Central& b) { return a.header < b.header; };
    if (!std::ranges::is_sorted(centrals, by_place)) {
        std::ranges::sort(centrals, by_place);
    }
    archive.entries.reserve(centrals.size());
    Bytes previous_end = 0;
    for (const std::size_t i : indices(centrals)) {
        const Central& entry = centrals[i];
        if (entry.header < previous_end) {
            fail_zip("entry " + in_quotes(entry.name) + " overlaps the one before it");
        }
        const Bytes next = i + 1 < centrals.size() ? centrals[i + 1].header : directory.offset;
        const auto by_layout = torch_data_offset(entry.header, entry.name.size(), entry.size, next);
        archive.is_as_torch_lays_out = archive.is_as_torch_lays_out && by_layout.has_value();
        const Bytes offset = by_layout ? *by_layout : data_offset(reader, entry);
        if (offset > directory.offset || entry.size > directory.offset - offset) {
            fail_zip("entry " + in_quotes(entry.name) + " (" + std::to_string(entry.size) +
                     " bytes at offset " + std::to_string(offset) +
                     ") runs past the central directory at " + std::to_string(directory.offset));
        }
        previous_end = offset + entry.size;
        if (!by_layout && is_wrapped(next - std::min(next, previous_end))) {
            throw Error(ErrorCode::corrupt,
                        "zip: entry " + in_quotes(entry.name) +
                            " has more in front of it than its header can say: so torch.save "
                            "writes with a storage_alignment above 65536, and nothing can load it",
                        "save it with a storage_alignment of 65536 or less");
        }
        const Bytes sum = (entry.flags & kHasDescriptor) != 0 ? offset + entry.size + kDescriptorSum
                                                              : entry.header + kLocalSum;
        archive.entries.push_back(
            {entry.name,
             {reader.begin() + offset,
              entry.size,
              entry.crc,
              {reader.begin() + sum, reader.begin() + directory.offset + entry.at + kCentralSum}}});
    }
    require_distinct(archive.entries);
    archive.prefix = find_prefix(archive);
    return archive;
}

ZipArchive ZipArchive::read(const io::InputFile& file, Bytes begin, Bytes length) {
    RangeReader reader(file, begin, length);
    return read_zip(reader);
}

const ZipEntry* ZipArchive::find(std::string_view own) const {
    auto* const found = find_where(
        entries, [&](const NamedZipEntry& named) { return own_name(named.name) == own; });
    return found == nullptr ? nullptr : &found->entry;
}

void require_crc32(std::string_view record, ByteView bytes, std::uint32_t stated) {
    if (const std::uint32_t found = crc32(bytes); stated != 0 && found != stated) {
        throw Error(ErrorCode::corrupt,
                    "record " + printable(std::string(record)) + wrong_crc32(found, stated));
    }
}

}  // namespace shardweld::formats
