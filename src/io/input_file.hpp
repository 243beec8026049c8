// Reading a file at offsets, by descriptor.
#pragma once

#include <cstdint>

#include "core/index.hpp"
#include "core/path.hpp"

#include "descriptor.hpp"
#include "stamp.hpp"

namespace shardweld::io {

class Directory;

/// Calls that read files, of this process so far; any thread.
std::uint64_t read_calls();

/// A read-only regular file. Move-only; closed on destruction.
class InputFile {
  public:
    InputFile() = default;
    /// Opens for reading. Error(not_found) when absent, Error(unsupported) when not a regular file
    /// (never blocks on a FIFO or device: opened O_NONBLOCK|O_NOCTTY|O_CLOEXEC and checked),
    /// Error(io) otherwise.
    static InputFile open(const fs::path& path);
    /// Opens a name below a directory, whatever name that has by now. A link is not followed:
    /// Error(io).
    static InputFile open(const Directory& directory, const fs::path& name);
    /// Reads through `fd`, which was opened so; `path` is its name in messages. Takes the
    /// descriptor.
    static InputFile adopt(int fd, const fs::path& path);

    [[nodiscard]] Bytes size() const { return stamp_.size; }
    [[nodiscard]] const fs::path& path() const { return path_; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] bool is_open() const { return fd_.is_open(); }

    /// Fills `out` from `offset`. Error(corrupt) when the file ends before, Error(io) on a failed
    /// read or when it has become shorter; EINTR and short reads are continued.
    void read_at(Bytes offset, ByteSpan out) const;

    /// What it was when it was opened.
    [[nodiscard]] const FileStamp& stamp() const { return stamp_; }
    /// Error(io) when it is no longer that: what was read may be of two versions.
    void require_unchanged() const;
    /// Compares with another moment than that of opening.
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

  private:
    static InputFile opened(int directory, const fs::path& name, const fs::path& path, int flags);

    Descriptor fd_;
    FileStamp stamp_;
    fs::path path_;
};

}  // namespace shardweld::io
