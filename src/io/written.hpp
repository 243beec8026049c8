// Whether a file still is what was written to it: the same one, whole, with the same bytes.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "digest.hpp"
#include "directory.hpp"
#include "output_file.hpp"

namespace shardweld::io {

/// Bytes of a file as they were written.
struct WrittenStretch {
    Bytes offset = 0;
    Bytes size = 0;
    Digest digest{};
};

/// A file below a directory, and what this process has written to it.
struct WrittenFile {
    fs::path name;
    Identity identity;
    std::vector<WrittenStretch> stretches;
};

/// A file that is being written, and a note of each write.
class NotedFile {
  public:
    /// `name`: below the directory that it is looked for in later.
    NotedFile(OutputFile file, const fs::path& name)
        : file_(std::move(file)), written_{name, {}, {}} {}

    /// Writes at `offset` (OutputFile::write_at), and notes it.
    void write(Bytes offset, ByteView bytes);
    /// Closes the file, fsynced with `sync`: what was written to it. Once.
    WrittenFile finish(bool sync);

  private:
    OutputFile file_;
    WrittenFile written_;
};

/// Error(io) unless what lies there is the regular file that was written, with its size and rights;
/// the message says what it is.
void require_same_file(const Directory& directory, const fs::path& name, const Identity& expected);

/// Error(io) unless an open file is that.
void require_same_file(int fd, const fs::path& path, const Identity& expected);

/// How much of what was written is read back.
struct ReadBack {
    bool all = false;        ///< else samples
    bool from_disk = false;  ///< what the page cache has of the file is dropped first
    std::function<void(Bytes)> before_read = [](Bytes) {};  ///< told the bytes
};

/// Compares a file with what was written. Reads the first of the stretches (in the order of their
/// offsets), the last, every 64th and all in which the file system sees holes, or all. Returns the
/// first that is not what was written; nullopt: there is none. Memory: the largest stretch. As
/// require_same_file; Error(io).
std::optional<WrittenStretch> first_changed(const Directory& directory, const fs::path& name,
                                            const Identity& identity,
                                            std::span<const WrittenStretch> stretches,
                                            const ReadBack& how);

/// As first_changed, with an Error(io) for what was changed.
void require_as_written(const Directory& directory, const WrittenFile& file, const ReadBack& how);

/// An Error(io): another program changed a file of the output; `what` says how.
[[noreturn]] void throw_changed(const fs::path& path, const std::string& what);

}  // namespace shardweld::io
