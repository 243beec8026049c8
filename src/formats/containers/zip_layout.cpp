#include "zip_layout.hpp"

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

}  // namespace shardweld::formats
