// Builds zip archives byte by byte, correct ones and deliberately wrong ones.
// Knows nothing of torch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/crc32.hpp"
#include "formats/containers/zip.hpp"

namespace shardweld::test {

struct ZipSpec {
    std::string name;
    std::string data;
    std::uint16_t method = 0;
    std::uint16_t flags = 0x0808;  // as torch: sizes behind the data, UTF-8 names
    bool is_zip64 = false;         // saturated fields in the central directory
    std::size_t padding = 0;       // extra field of the local header
    std::string local_name = {};   // if it differs
};

inline std::string little(std::uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i, value >>= 8U) {
        text += static_cast<char>(value & 0xFFU);
    }
    return text;
}

inline std::uint32_t crc_of(const std::string& text) {
    return crc32(std::as_bytes(std::span(text)));
}

inline std::string local_header(const ZipSpec& spec) {
    const bool has_descriptor = (spec.flags & 8U) != 0;
    const std::uint64_t size = has_descriptor ? 0 : spec.data.size();
    const std::string name = spec.local_name.empty() ? spec.name : spec.local_name;
    const std::string extra = spec.padding == 0 ? ""
                                                : little(0x4246, 2) + little(spec.padding, 2) +
                                                      std::string(spec.padding, 'Z');
    return little(0x04034b50, 4) + little(0, 2) + little(spec.flags, 2) + little(spec.method, 2) +
           little(0, 4) + little(has_descriptor ? 0 : crc_of(spec.data), 4) + little(size, 4) +
           little(size, 4) + little(name.size(), 2) + little(extra.size(), 2) + name + extra;
}

inline std::string central_header(const ZipSpec& spec, std::uint64_t offset) {
    const std::uint64_t size = spec.data.size();
    const std::string extra = spec.is_zip64 ? little(0x7777, 2) + little(2, 2) + "??" +
                                                  little(1, 2) + little(24, 2) + little(size, 8) +
                                                  little(size, 8) + little(offset, 8)
                                            : "";
    const std::uint64_t full = 0xffffffff;
    return little(0x02014b50, 4) + little(0, 4) + little(spec.flags, 2) + little(spec.method, 2) +
           little(0, 4) + little(crc_of(spec.data), 4) + little(spec.is_zip64 ? full : size, 4) +
           little(spec.is_zip64 ? full : size, 4) + little(spec.name.size(), 2) +
           little(extra.size(), 2) + little(0, 2) + little(0, 8) +
           little(spec.is_zip64 ? full : offset, 4) + spec.name + extra;
}

inline std::string end_record(std::uint64_t count, std::uint64_t size, std::uint64_t offset,
                              const std::string& comment = "") {
    return little(0x06054b50, 4) + little(0, 4) + little(count, 2) + little(count, 2) +
           little(size, 4) + little(offset, 4) + little(comment.size(), 2) + comment;
}

inline std::string end_record64(std::uint64_t count, std::uint64_t size, std::uint64_t offset) {
    const std::uint64_t at = offset + size;
    return little(0x06064b50, 4) + little(44, 8) + little(0, 12) + little(count, 8) +
           little(count, 8) + little(size, 8) + little(offset, 8) + little(0x07064b50, 4) +
           little(0, 4) + little(at, 8) + little(1, 4) + end_record(0xffff, 0xffffffff, 0xffffffff);
}

/// The whole archive.
inline std::string build_zip(const std::vector<ZipSpec>& specs, const std::string& comment = "",
                             bool is_zip64 = false) {
    std::string archive;
    std::string directory;
    for (const ZipSpec& spec : specs) {
        directory += central_header(spec, archive.size());
        archive += local_header(spec) + spec.data;
        if ((spec.flags & 8U) != 0) {
            archive += little(0x08074b50, 4) + little(crc_of(spec.data), 4) +
                       little(spec.data.size(), 4) + little(spec.data.size(), 4);
        }
    }
    const std::uint64_t offset = archive.size();
    archive += directory;
    return archive + (is_zip64 ? end_record64(specs.size(), directory.size(), offset)
                               : end_record(specs.size(), directory.size(), offset, comment));
}

}  // namespace shardweld::test
