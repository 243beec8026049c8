// A new file, written from front to back, with holes.
// Knows nothing of its content.
#pragma once

#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "core/index.hpp"
#include "io/output_file.hpp"

namespace shardweld::bench {

class AppendFile {
  public:
    /// Error(target) when the file exists.
    explicit AppendFile(const std::filesystem::path& path);

    [[nodiscard]] Bytes position() const { return flushed_ + used_; }
    void write(std::span<const std::byte> bytes);
    void write(std::string_view text);
    /// Leaves a hole of zeros.
    void skip(Bytes size);
    /// The unused part of the buffer, never empty; what is put there counts after commit().
    std::span<std::byte> room();
    void commit(std::size_t size) { used_ += size; }
    void close();

  private:
    void flush();

    io::OutputFile file_;
    std::vector<std::byte> buffer_;
    std::size_t used_ = 0;
    Bytes flushed_ = 0;
};

}  // namespace shardweld::bench
