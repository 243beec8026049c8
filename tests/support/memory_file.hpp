// A file that exists in memory only, for readers that want a path.
// Knows nothing of what is in it.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include <sys/mman.h>
#include <unistd.h>

namespace shardweld::test {

class MemoryFile {
  public:
    explicit MemoryFile(std::string_view content) : fd_(::memfd_create("shardweld-test", 0)) {
        if (fd_ < 0 || ::pwrite(fd_, content.data(), content.size(), 0) !=
                           static_cast<ssize_t>(content.size())) {
            throw std::runtime_error("cannot make a file in memory");
        }
    }
    MemoryFile(const MemoryFile&) = delete;
    MemoryFile& operator=(const MemoryFile&) = delete;
    ~MemoryFile() { ::close(fd_); }

    [[nodiscard]] std::filesystem::path path() const {
        return "/proc/self/fd/" + std::to_string(fd_);
    }

  private:
    int fd_;
};

/// `text` with "F" for the name of each such file, which differs from run to run.
inline std::string with_short_names(std::string text) {
    const std::string place = "/proc/self/fd/";
    for (std::size_t at = text.find(place); at != std::string::npos; at = text.find(place, at)) {
        const std::size_t end = text.find_first_not_of("0123456789", at + place.size());
        text.replace(at, end - at, "F");
    }
    return text;
}

}  // namespace shardweld::test
