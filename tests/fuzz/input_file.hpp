// A target's bytes as a file in memory, for readers that want a path. One file for all runs: making
// one for each would cost more than what is tested.
// Knows nothing of what is in it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>

#include <sys/mman.h>
#include <unistd.h>

namespace shardweld::fuzz {

/// The file, and its path.
inline int input_fd() {
    static const int fd = ::memfd_create("shardweld-fuzz", 0);
    return fd;
}
inline const std::filesystem::path& input_path() {
    static const std::filesystem::path path =
        "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(input_fd());
    return path;
}

/// Puts the bytes into the file; its path stays the same.
inline const std::filesystem::path& file_with(const std::uint8_t* data, std::size_t size) {
    if (::ftruncate(input_fd(), static_cast<off_t>(size)) != 0 ||
        ::pwrite(input_fd(), data, size, 0) != static_cast<ssize_t>(size)) {
        __builtin_trap();
    }
    return input_path();
}

/// A directory in which one name leads to that file.
class LinkDirectory {
  public:
    /// `name`: relative, "mp_rank_00/model_optim_rng.pt".
    explicit LinkDirectory(const std::string& name)
        : path_(std::filesystem::temp_directory_path() /
                ("shardweld_fuzz_" + std::to_string(::getpid()))) {
        std::filesystem::create_directories((path_ / name).parent_path());
        std::filesystem::create_symlink(input_path(), path_ / name);
    }
    LinkDirectory(const LinkDirectory&) = delete;
    LinkDirectory& operator=(const LinkDirectory&) = delete;
    LinkDirectory(LinkDirectory&&) = delete;
    LinkDirectory& operator=(LinkDirectory&&) = delete;
    ~LinkDirectory() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    [[nodiscard]] const std::filesystem::path& path() const { return path_; }

  private:
    std::filesystem::path path_;
};

}  // namespace shardweld::fuzz
