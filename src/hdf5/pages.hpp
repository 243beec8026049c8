// The parts of a large file that are written, in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

namespace shardweld::hdf5 {

class Pages {
  public:
    static constexpr std::uint64_t kPageBytes = 65'536;
    using Page = std::array<std::byte, kPageBytes>;

    /// Never fails, as libhdf5 does not survive a failing file: bytes that find no memory are
    /// dropped, which is_whole() then tells.
    void write(std::uint64_t offset, const void* bytes, std::size_t size) noexcept;
    /// Zeros where nothing was written.
    void read(std::uint64_t offset, void* bytes, std::size_t size) const noexcept;

    [[nodiscard]] bool is_whole() const { return is_whole_; }
    /// By offset / kPageBytes.
    [[nodiscard]] const std::map<std::uint64_t, std::unique_ptr<Page>>& all() const { return all_; }

    [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
    void set_file_bytes(std::uint64_t size) { file_bytes_ = size; }

  private:
    std::map<std::uint64_t, std::unique_ptr<Page>> all_;
    std::uint64_t file_bytes_ = 0;
    bool is_whole_ = true;
};

}  // namespace shardweld::hdf5
