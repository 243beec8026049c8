// Zip archives as torch writes them, from front to back.
// Knows nothing of what the entries hold.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "outputs/torch/zip_records.hpp"

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
    [[nodiscard]] std::uint64_t joined_checksums() const {
        std::uint64_t joined = 0;
        for (const outputs::torch::ZipRecord& entry : entries_) {
            if (entry.size > 0) {
                joined ^= entry.crc32 + std::uint64_t{0x9e3779b9} + (joined << 6U) + (joined >> 2U);
            }
        }
        return joined;
    }
    /// Writes the central directory.
    void finish();

  private:
    void begin_entry(const std::string& name, Bytes size);
    void end_entry(std::uint32_t crc32);

    AppendFile& file_;
    Bytes begin_;
    std::vector<outputs::torch::ZipRecord> entries_;
};

}  // namespace shardweld::bench
