// Zip archives as torch writes them: stored entries, data aligned to 64 bytes.
// Knows nothing of what the entries hold. Sources: PKWARE APPNOTE 6.3.10; torch 2.15
// caffe2/serialize/inline_container.cc (padding in an extra field "FB").
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "append_file.hpp"

namespace shardweld::bench {

class ZipWriter {
  public:
    /// Begins an archive at the file's position.
    explicit ZipWriter(AppendFile& file) : file_(file), begin_(file.position()) {}

    void add(const std::string& name, std::string_view content);
    /// `produce` fills one span after the other, `size` bytes in all.
    void add(const std::string& name, Bytes size,
             const std::function<void(std::span<std::byte>)>& produce);
    /// `size` zeros, left as a hole; its checksum is written as 0 (not recorded).
    void add_hole(const std::string& name, Bytes size);
    /// What torch joins the checksums of all records so far to (c10::hash_combine), for the second
    /// half of its serialization_id.
    [[nodiscard]] std::uint64_t joined_checksums() const;
    /// Writes the central directory.
    void finish();

  private:
    struct Entry {
        std::string name;
        Bytes offset = 0;
        Bytes size = 0;
        std::uint32_t crc32 = 0;
    };
    void begin_entry(const std::string& name, Bytes size);
    void end_entry(std::uint32_t crc32);
    void write_central(const Entry& entry);

    AppendFile& file_;
    Bytes begin_;
    std::vector<Entry> entries_;
};

}  // namespace shardweld::bench
