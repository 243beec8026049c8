// Writing a file at offsets, by descriptor.
#pragma once

#include <utility>

#include "core/index.hpp"
#include "core/path.hpp"

#include "descriptor.hpp"

namespace shardweld::io {

class Directory;

/// What direct I/O asks of addresses, offsets and sizes on all usual devices.
inline constexpr Bytes kDirectBlock = 4096;
/// Linux transfers at most this much in one call (write(2)).
inline constexpr Bytes kMostOfWrite = 0x7ffff000;

/// A file being written at offsets. Move-only. Must be closed by close(): the destructor closes
/// without checking.
class OutputFile {
  public:
    OutputFile() = default;
    /// Creates the file (O_EXCL) with permission bits 0666 less the umask. Error(target) when it
    /// exists; space/quota/inode failures are Error(space), others Error(io).
    static OutputFile create(const fs::path& path);
    /// Makes a file of this name below a directory, whatever name that has by now.
    static OutputFile create(const Directory& directory, const fs::path& name);
    /// Opens a file for writing, not truncated; makes it where there is none.
    static OutputFile open_or_create(const fs::path& path);
    /// Opens an existing file for writing, not truncated.
    static OutputFile open_existing(const fs::path& path);
    /// Opens one below a directory; a link is not followed: Error(io).
    static OutputFile open_existing(const Directory& directory, const fs::path& name);
    /// Opens one past the page cache (O_DIRECT): address, offset and size of every write must be
    /// multiples of kDirectBlock. Error(unsupported) where the file system does not do it.
    static OutputFile open_direct(const Directory& directory, const fs::path& name);

    void resize(Bytes size);
    /// Reserves space for the first `size` bytes where the file system can: Error(space) now rather
    /// than at a later write, and writes that need not allocate. Does nothing elsewhere.
    void reserve(Bytes size);
    /// Makes writers of this file that share a host take turns from now on, where it is a local
    /// file system that lets one write at a time: those that wait for its own lock keep a processor
    /// busy, here they sleep. All of them must ask for it.
    void take_turns();
    /// Writes all of `data` at `offset`, in one turn, by calls of at most `most` bytes; ENOSPC,
    /// EDQUOT are Error(space), others Error(io).
    void write_at(Bytes offset, ByteView data, Bytes most = kMostOfWrite) const;
    void sync() const;
    /// Starts bringing these written bytes to the disk and returns; may do nothing where the file
    /// system cannot.
    void start_writeback(Bytes offset, Bytes size) const;
    /// Waits until these bytes are on their way no more and gives their pages back. Not a sync: the
    /// disk's own cache and the file's metadata are not flushed. Error(io), Error(space).
    void finish_writeback(Bytes offset, Bytes size) const;
    /// Closes and checks; Error(io) when the system reports a late write error.
    void close();
    [[nodiscard]] bool is_open() const { return fd_.is_open(); }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] const fs::path& path() const { return path_; }

  private:
    OutputFile(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}
    static OutputFile created(int fd, const fs::path& path);
    static OutputFile opened(int fd, const fs::path& path);
    void put_at(Bytes offset, ByteView data, Bytes most) const;

    Descriptor fd_;
    fs::path path_;
    bool takes_turns_ = false;
};

}  // namespace shardweld::io
