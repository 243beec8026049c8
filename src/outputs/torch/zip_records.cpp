#include "zip_records.hpp"

#include <algorithm>

#include "outputs/little_endian.hpp"

namespace shardweld::outputs::torch {

namespace {

constexpr Bytes kAlignment = 64;
constexpr Bytes kLargest32 = 0xFFFFFFFFU;
constexpr std::uint64_t kFlags = 0x0808;  // data descriptor follows, names are UTF-8
constexpr Bytes kLocalHeader = 30;
constexpr Bytes kCentralRecord = 46;
constexpr Bytes kFieldHead = 4;

/// Fields of a record, little-endian.
class RecordFields {
  public:
    explicit RecordFields(std::string_view signature) : bytes_(signature) {}
    RecordFields& u16(std::uint64_t value) { return number(value, 2); }
    RecordFields& u32(std::uint64_t value) { return number(value, 4); }
    RecordFields& u64(std::uint64_t value) { return number(value, 8); }
    RecordFields& text(std::string_view value) {
        bytes_ += value;
        return *this;
    }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

  private:
    RecordFields& number(std::uint64_t value, unsigned size) {
        append_number(bytes_, value, size);
        return *this;
    }
    std::string bytes_;
};

/// Sizes that need it go to the zip64 extra field.
std::uint64_t capped(Bytes value) {
    return std::min(value, kLargest32);
}

/// Bytes of the zip64 field that wide_extra makes; 0 where it makes none.
Bytes wide_size(const ZipRecord& entry) {
    const Bytes fields =
        (entry.size >= kLargest32 ? 16U : 0U) + (entry.offset >= kLargest32 ? 8U : 0U);
    return fields == 0 ? 0 : kFieldHead + fields;
}

/// What the zip64 field of an entry holds; torch's writer has the offset in local headers too.
std::string wide_fields(const ZipRecord& entry) {
    RecordFields wide("");
    if (entry.size >= kLargest32) {
        wide.u64(entry.size).u64(entry.size);
    }
    if (entry.offset >= kLargest32) {
        wide.u64(entry.offset);
    }
    return wide.bytes();
}

std::string wide_extra(const ZipRecord& entry) {
    const std::string wide = wide_fields(entry);
    return wide.empty() ? "" : RecordFields("").u16(1).u16(wide.size()).text(wide).bytes();
}

/// The "FB" field that brings the data to a multiple of 64 bytes from the archive's begin.
std::string padding(const ZipRecord& entry) {
    const Bytes begin = entry.offset + kLocalHeader + entry.name.size() + wide_size(entry);
    const Bytes fill = entry.data() - begin - kFieldHead;
    return RecordFields("FB").u16(fill).text(std::string(fill, 'Z')).bytes();
}

}  // namespace

Bytes ZipRecord::data() const {
    const Bytes least = offset + kLocalHeader + name.size() + wide_size(*this) + kFieldHead;
    return (least + kAlignment - 1) / kAlignment * kAlignment;
}

Bytes ZipRecord::end() const {
    constexpr Bytes kDescriptor = 16;
    constexpr Bytes kWideDescriptor = 24;
    return checked_add_bytes(data(), size, "an output file") +
           (wide_size(*this) == 0 ? kDescriptor : kWideDescriptor);
}

Bytes ZipRecord::central_size() const {
    return kCentralRecord + name.size() + wide_size(*this);
}

std::string zip_header(const ZipRecord& entry) {
    const std::string extra = wide_extra(entry) + padding(entry);
    RecordFields header("PK\x03\x04");
    header.u16(0).u16(kFlags).u16(0).u32(0);  // version, flags, method, time and date
    header.u32(0).u32(0).u32(0);              // checksum and sizes: in the descriptor
    header.u16(entry.name.size()).u16(extra.size()).text(entry.name).text(extra);
    return header.bytes();
}

std::string zip_descriptor(const ZipRecord& entry) {
    RecordFields descriptor("PK\x07\x08");
    descriptor.u32(entry.crc32);
    if (wide_size(entry) > 0) {
        descriptor.u64(entry.size).u64(entry.size);
    } else {
        descriptor.u32(entry.size).u32(entry.size);
    }
    return descriptor.bytes();
}

std::string zip_central(const ZipRecord& entry) {
    const std::string extra = wide_extra(entry);
    RecordFields record("PK\x01\x02");
    record.u16(0).u16(0).u16(kFlags).u16(0).u32(0);
    record.u32(entry.crc32).u32(capped(entry.size)).u32(capped(entry.size));
    record.u16(entry.name.size()).u16(extra.size());
    record.u16(0).u16(0).u16(0).u32(0);  // comment, disk, attributes
    record.u32(capped(entry.offset)).text(entry.name).text(extra);
    return record.bytes();
}

std::string zip_end(Bytes begin, Bytes end, std::uint64_t n_entries) {
    const Bytes size = end - begin;
    RecordFields tail("PK\x06\x06");
    tail.u64(44).u16(0x031E).u16(45).u32(0).u32(0);
    tail.u64(n_entries).u64(n_entries).u64(size).u64(begin);
    tail.text("PK\x06\x07").u32(0).u64(end).u32(1);
    const std::uint64_t count = std::min<std::uint64_t>(n_entries, 0xFFFFU);
    tail.text("PK\x05\x06").u16(0).u16(0).u16(count).u16(count);
    tail.u32(capped(size)).u32(capped(begin)).u16(0);
    return tail.bytes();
}

}  // namespace shardweld::outputs::torch
