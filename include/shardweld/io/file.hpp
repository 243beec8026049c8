// Files by descriptor: whole reads and writes at offsets, sizes, directories.
// Knows nothing of formats; every failure names the file, the offset and the system's reason.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "shardweld/core/index.hpp"
#include "shardweld/io/stamp.hpp"

namespace shardweld::io {

namespace fs = std::filesystem;

class Directory;

/// A read-only regular file. Move-only; closed on destruction.
class InputFile {
  public:
    InputFile() = default;
    /// Opens for reading. Error(not_found) when absent, Error(unsupported) when not a regular file
    /// (never blocks on a FIFO or device: opened O_NONBLOCK|O_NOCTTY|O_CLOEXEC and checked),
    /// Error(io) otherwise.
    static InputFile open(const fs::path& path);
    /// The same of a name below a directory, whatever name that has by now. A link is not followed:
    /// Error(io).
    static InputFile open(const Directory& directory, const fs::path& name);
    /// The same of what `fd`, opened so, reads; `path` is its name in messages. Takes the
    /// descriptor.
    static InputFile adopt(int fd, const fs::path& path);

    [[nodiscard]] Bytes size() const { return stamp_.size; }
    [[nodiscard]] const fs::path& path() const { return path_; }
    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }

    /// Fills `out` from `offset`. Error(corrupt) when the file ends before, Error(io) on a failed
    /// read or when it has become shorter; EINTR and short reads are continued.
    void read_at(Bytes offset, std::span<std::byte> out) const;

    /// What it was when it was opened.
    [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
    /// Error(io) when it is no longer that: what was read may be of two versions.
    void require_unchanged() const;
    /// The same for another moment than that of opening.
    void require(const FileStamp& expected) const;

    /// About the part of the file that lies in the page cache, 0 to 1, from samples; 1 where the
    /// system does not tell (of files that others own).
    [[nodiscard]] double cached_share() const;
    /// Has the kernel fetch these bytes while others work. Never fails.
    void will_need(Bytes offset, Bytes size) const;
    /// Gives the clean pages that lie wholly inside these bytes back to the system. Never fails.
    void forget(Bytes offset, Bytes size) const;
    /// Where the next part of the file begins, at or behind `offset`, that nothing was written to
    /// or that was taken out again; the end of the file where there is none, or where the file
    /// system does not tell. Some say so of zeros that were written.
    [[nodiscard]] Bytes next_hole(Bytes offset) const;
    /// Where that part ends.
    [[nodiscard]] Bytes next_data(Bytes offset) const;

    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    ~InputFile();

  private:
    static InputFile opened(int directory, const fs::path& name, const fs::path& path, int flags);

    int fd_ = -1;
    FileStamp stamp_;
    fs::path path_;
};

/// What direct I/O asks of addresses, offsets and sizes on all usual devices.
inline constexpr Bytes kDirectBlock = 4096;

/// A file being written at offsets. Move-only. Must be closed by close(): the destructor closes
/// without checking.
class OutputFile {
  public:
    OutputFile() = default;
    /// Creates the file (O_EXCL) with permission bits 0666 less the umask. Error(target) when it
    /// exists; space/quota/inode failures are Error(space), others Error(io).
    static OutputFile create(const fs::path& path);
    /// The same of a name below a directory, whatever name that has by now.
    static OutputFile create(const Directory& directory, const fs::path& name);
    /// Opens a file for writing, not truncated; makes it where there is none.
    static OutputFile open_or_create(const fs::path& path);
    /// Opens an existing file for writing, not truncated.
    static OutputFile open_existing(const fs::path& path);
    /// The same below a directory; a link is not followed: Error(io).
    static OutputFile open_existing(const Directory& directory, const fs::path& name);
    /// The same past the page cache (O_DIRECT): address, offset and size of every write must be
    /// multiples of kDirectBlock. Error(unsupported) where the file system does not do it.
    static OutputFile open_direct(const Directory& directory, const fs::path& name);

    void resize(Bytes size);
    /// Reserves space for the first `size` bytes where the file system can: Error(space) now rather
    /// than at a later write, and writes that need not allocate. Does nothing elsewhere.
    void reserve(Bytes size);
    /// Writes all of `data` at `offset`; ENOSPC, EDQUOT are Error(space), others Error(io).
    void write_at(Bytes offset, std::span<const std::byte> data) const;
    void sync() const;
    /// Starts bringing these written bytes to the disk and returns; may do nothing where the file
    /// system cannot.
    void start_writeback(Bytes offset, Bytes size) const;
    /// Waits until these bytes are on their way no more and gives their pages back. Not a sync: the
    /// disk's own cache and the file's metadata are not flushed. Error(io), Error(space).
    void finish_writeback(Bytes offset, Bytes size) const;
    /// Closes and checks; Error(io) when the system reports a late write error.
    void close();
    [[nodiscard]] bool is_open() const { return fd_ >= 0; }
    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] const fs::path& path() const { return path_; }

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

  private:
    OutputFile(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}
    static OutputFile created(int fd, const fs::path& path);
    static OutputFile opened(int fd, const fs::path& path);

    int fd_ = -1;
    fs::path path_;
};

/// Whole small file as bytes/text. Error(corrupt) when larger than `limit`, Error(io) when it
/// changes meanwhile.
std::vector<std::byte> read_bytes(const fs::path& path, Bytes limit);
std::string read_text(const fs::path& path, Bytes limit = 64U << 20U);
/// Writes a whole small file, checked, optionally fsynced.
void write_text(const fs::path& path, const std::string& text, bool sync);
/// fsync of a directory.
void sync_directory(const fs::path& path);

/// An Error with code_of_errno. Text: "cannot WHAT PATH: REASON (errno N)".
[[noreturn]] void throw_errno(int error, const std::string& what, const fs::path& path);

}  // namespace shardweld::io
