// Files by descriptor: whole reads and writes at offsets, sizes, directories.
// Knows nothing of formats; every failure names the file, the offset and the system's reason.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "shardweld/core/index.hpp"

namespace shardweld::io {

namespace fs = std::filesystem;

/// Tells whether a file is still what it was.
struct FileStamp {
    Bytes size = 0;
    Index modified_ns = 0;  ///< last change of its bytes, since 1970
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// A read-only regular file. Move-only; closed on destruction.
class InputFile {
  public:
    InputFile() = default;
    /// Opens for reading. Error(not_found) when absent, Error(unsupported) when not a regular file
    /// (never blocks on a FIFO or device: opened O_NONBLOCK|O_NOCTTY|O_CLOEXEC and checked),
    /// Error(io) otherwise.
    static InputFile open(const fs::path& path);

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

    InputFile(InputFile&& other) noexcept;
    InputFile& operator=(InputFile&& other) noexcept;
    InputFile(const InputFile&) = delete;
    InputFile& operator=(const InputFile&) = delete;
    ~InputFile();

  private:
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
    /// Opens a file for writing, not truncated; makes it where there is none.
    static OutputFile open_or_create(const fs::path& path);
    /// Opens an existing file for writing, not truncated.
    static OutputFile open_existing(const fs::path& path);
    /// The same past the page cache (O_DIRECT): address, offset and size of every write must be
    /// multiples of kDirectBlock. Error(unsupported) where the file system does not do it.
    static OutputFile open_direct(const fs::path& path);

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

    OutputFile(OutputFile&& other) noexcept;
    OutputFile& operator=(OutputFile&& other) noexcept;
    OutputFile(const OutputFile&) = delete;
    OutputFile& operator=(const OutputFile&) = delete;
    ~OutputFile();

  private:
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
