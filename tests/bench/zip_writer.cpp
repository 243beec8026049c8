#include "zip_writer.hpp"

#include <algorithm>
#include <array>

#include "core/crc32.hpp"

namespace shardweld::bench {

namespace {

constexpr Bytes kAlignment = 64;
constexpr Bytes kLargest32 = 0xFFFFFFFFU;
constexpr std::uint64_t kFlags = 0x0808;  // data descriptor follows, names are UTF-8
constexpr Bytes kLocalHeader = 30;

// Fields of a record, little-endian.
class Record {
  public:
    explicit Record(std::string_view signature) : bytes_(signature) {}
    Record& u16(std::uint64_t value) { return number(value, 2); }
    Record& u32(std::uint64_t value) { return number(value, 4); }
    Record& u64(std::uint64_t value) { return number(value, 8); }
    Record& text(std::string_view value) {
        bytes_ += value;
        return *this;
    }
    [[nodiscard]] const std::string& bytes() const { return bytes_; }

  private:
    Record& number(std::uint64_t value, unsigned size) {
        for (unsigned i = 0; i < size; ++i) {
            bytes_ += static_cast<char>((value >> (8 * i)) & 0xFFU);
        }
        return *this;
    }
    std::string bytes_;
};

// Sizes that need it go to the zip64 extra field.
std::uint64_t capped(Bytes value) {
    return std::min(value, kLargest32);
}

// The "FB" field that brings the data to a multiple of 64 bytes from the archive's begin.
std::string padding(Bytes header_end) {
    const Bytes with_field = header_end + 4;
    const Bytes fill = (kAlignment - with_field % kAlignment) % kAlignment;
    return Record("FB").u16(fill).text(std::string(fill, 'Z')).bytes();
}

// What the zip64 field of an entry holds; torch's writer has the offset in local headers too.
std::string wide_fields(Bytes offset, Bytes size) {
    Record wide("");
    if (size >= kLargest32) {
        wide.u64(size).u64(size);
    }
    if (offset >= kLargest32) {
        wide.u64(offset);
    }
    return wide.bytes();
}

}  // namespace

void ZipWriter::begin_entry(const std::string& name, Bytes size) {
    const Bytes offset = file_.position() - begin_;
    const std::string wide = wide_fields(offset, size);
    std::string extra = wide.empty() ? "" : Record("").u16(1).u16(wide.size()).text(wide).bytes();
    extra += padding(offset + kLocalHeader + name.size() + extra.size());
    Record header("PK\x03\x04");
    header.u16(0).u16(kFlags).u16(0).u32(0);  // version, flags, method, time and date
    header.u32(0).u32(0).u32(0);              // checksum and sizes: in the descriptor
    header.u16(name.size()).u16(extra.size()).text(name).text(extra);
    file_.write(header.bytes());
    entries_.push_back({name, offset, size, 0});
}

void ZipWriter::end_entry(std::uint32_t crc32) {
    Entry& entry = entries_.back();
    entry.crc32 = crc32;
    Record descriptor("PK\x07\x08");
    descriptor.u32(crc32);
    if (!wide_fields(entry.offset, entry.size).empty()) {
        descriptor.u64(entry.size).u64(entry.size);
    } else {
        descriptor.u32(entry.size).u32(entry.size);
    }
    file_.write(descriptor.bytes());
}

void ZipWriter::add(const std::string& name, std::string_view content) {
    begin_entry(name, content.size());
    file_.write(content);
    end_entry(crc32(std::as_bytes(std::span(content))));
}

void ZipWriter::add(const std::string& name, Bytes size,
                    const std::function<void(std::span<std::byte>)>& produce) {
    // Whole elements at a time, whatever the position; small enough to stay in the cache.
    constexpr Bytes kStep = Bytes{1} << 18U;
    begin_entry(name, size);
    std::uint32_t sum = 0;
    while (size != 0) {
        const auto room = file_.room();
        const auto whole = std::min<Bytes>({room.size() & ~std::size_t{7}, size, kStep});
        if (whole == 0) {
            std::array<std::byte, 8> few{};
            const auto part = std::span(few).first(std::min<Bytes>(few.size(), size));
            produce(part);
            sum = crc32(part, sum);
            file_.write(part);
            size -= part.size();
            continue;
        }
        const auto part = room.first(whole);
        produce(part);
        sum = crc32(part, sum);
        file_.commit(part.size());
        size -= part.size();
    }
    end_entry(sum);
}

void ZipWriter::add_hole(const std::string& name, Bytes size) {
    begin_entry(name, size);
    file_.skip(size);
    end_entry(0);
}

void ZipWriter::write_central(const Entry& entry) {
    const std::string wide = wide_fields(entry.offset, entry.size);
    Record extra("");
    if (!wide.empty()) {
        extra.u16(1).u16(wide.size()).text(wide);
    }
    Record record("PK\x01\x02");
    record.u16(0).u16(0).u16(kFlags).u16(0).u32(0);
    record.u32(entry.crc32).u32(capped(entry.size)).u32(capped(entry.size));
    record.u16(entry.name.size()).u16(extra.bytes().size());
    record.u16(0).u16(0).u16(0).u32(0);  // comment, disk, attributes
    record.u32(capped(entry.offset)).text(entry.name).text(extra.bytes());
    file_.write(record.bytes());
}

std::uint64_t ZipWriter::joined_checksums() const {
    std::uint64_t joined = 0;
    for (const Entry& entry : entries_) {
        if (entry.size > 0) {
            joined ^= entry.crc32 + std::uint64_t{0x9e3779b9} + (joined << 6U) + (joined >> 2U);
        }
    }
    return joined;
}

void ZipWriter::finish() {
    const Bytes directory = file_.position() - begin_;
    for (const Entry& entry : entries_) {
        write_central(entry);
    }
    const Bytes end = file_.position() - begin_;
    const Bytes size = end - directory;
    Record tail("PK\x06\x06");
    tail.u64(44).u16(0x031E).u16(45).u32(0).u32(0);
    tail.u64(entries_.size()).u64(entries_.size()).u64(size).u64(directory);
    tail.text("PK\x06\x07").u32(0).u64(end).u32(1);
    const std::uint64_t count = std::min<std::uint64_t>(entries_.size(), 0xFFFFU);
    tail.text("PK\x05\x06").u16(0).u16(0).u16(count).u16(count);
    tail.u32(capped(size)).u32(capped(directory)).u16(0);
    file_.write(tail.bytes());
}

}  // namespace shardweld::bench
