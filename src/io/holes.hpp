// Space of a file that is given back while the file keeps its name and its size: holes, which read
// as zeros. Facts: fallocate(2), fcntl(2).
#pragma once

#include "core/index.hpp"
#include "core/path.hpp"

namespace shardweld::io {

/// What file systems give back at a time, at least: a hole begins and ends at a multiple of it.
inline constexpr Bytes kHoleBlock = 4096;

/// The ending of a journal's files that list what was given back.
inline constexpr const char* kDroppedEnding = ".dropped";

/// A file that is open for holes and nothing else. Move-only.
class HoleFile {
  public:
    /// Error(io). A link is not followed.
    static HoleFile open(const fs::path& path);

    /// Gives the whole blocks of [begin, end) back. Error(unsupported) where the file system does
    /// not do it, Error(io).
    void punch(Bytes begin, Bytes end) const;

    HoleFile(HoleFile&& other) noexcept;
    HoleFile& operator=(HoleFile&& other) noexcept;
    HoleFile(const HoleFile&) = delete;
    HoleFile& operator=(const HoleFile&) = delete;
    ~HoleFile();

  private:
    friend bool can_punch(const fs::path& directory);
    friend bool is_open_elsewhere(const fs::path& path);

    HoleFile(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}

    int fd_ = -1;
    fs::path path_;
};

/// Whether the file system of a directory gives space back, tried with a file without a name, or
/// with one that is removed again. Error(io), Error(space) where none can be made there.
bool can_punch(const fs::path& directory);

/// Whether another descriptor, of any process of this host, has the file open. false also where the
/// file system does not tell. Error(io).
bool is_open_elsewhere(const fs::path& path);

}  // namespace shardweld::io
