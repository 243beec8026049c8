#include "zip_layout.hpp"

#include <algorithm>
#include <optional>

#include "io/cursor.hpp"
#include "shardweld/error.hpp"

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

// Signatures and record sizes, APPNOTE 6.3.10 sections 4.3.12 and 4.3.14 to 4.3.16.
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr Bytes kEndBytes = 22;
constexpr Bytes kEnd64Bytes = 56;
constexpr Bytes kLocator64Bytes = 20;
constexpr Bytes kMaxComment = 65535;
constexpr std::uint16_t kInZip64Count = 0xffff;
constexpr std::uint32_t kInZip64 = 0xffffffff;

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
    constexpr Bytes kUsual = 2048;
    if (reader.length() < kEndBytes) {
        fail_zip("the file is truncated: " + std::to_string(reader.length()) +
                 " bytes cannot hold an archive");
    }
    // Few archives have a comment: the last bytes are enough and are read anyway.
    for (const Bytes span : {kUsual, kMaxComment + kEndBytes}) {
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

}  // namespace

ZipDirectory find_zip_directory(RangeReader& reader) {
    const Bytes end = locate_end(reader);
    io::Cursor record(reader.at(end, kEndBytes, "the end record"));
    record.seek(10, "end record");
    ZipDirectory directory;
    directory.count = record.get<std::uint16_t>("end record");
    directory.size = record.get<std::uint32_t>("end record");
    directory.offset = record.get<std::uint32_t>("end record");
    if (directory.count == kInZip64Count || directory.size == kInZip64 ||
        directory.offset == kInZip64) {
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

}  // namespace shardweld::formats
