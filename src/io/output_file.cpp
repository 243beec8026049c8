#include "output_file.hpp"

#include <cerrno>
#include <cstdint>
#include <limits>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/error_of.hpp"
#include "core/lists.hpp"
#include "shardweld/error.hpp"

#include "directory.hpp"
#include "errno.hpp"
#include "extents.hpp"
#include "stamp.hpp"

namespace shardweld::io {

namespace {

constexpr mode_t kMode = 0666;
constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
constexpr int kThere = O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;

/// What opening to write with O_CREAT, O_NOFOLLOW and O_NONBLOCK gave: Error(io) unless it is a
/// regular file, and the descriptor is closed; Error(space).
void require_regular(int fd, const fs::path& path) {
    const bool is_special = fd < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR);
    if (fd < 0 && !is_special) {
        throw_errno(errno, "create", path);
    }
    struct stat status {};
    if (is_special || (::fstat(fd, &status) == 0 && !S_ISREG(status.st_mode))) {
        (void)::close(fd);
        throw Error(ErrorCode::io, "cannot write " + path.string() + ": it is no regular file",
                    "remove what lies there");
    }
}

off_t file_offset(Bytes offset, const fs::path& path) {
    if (offset > static_cast<Bytes>(std::numeric_limits<off_t>::max())) {
        throw_errno(EFBIG, "reach offset " + std::to_string(offset) + " of", path);
    }
    return static_cast<off_t>(offset);
}

/// Direct writes cannot go on where a short one ended between blocks: what is left of the file goes
/// through the page cache.
void end_direct(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags >= 0 && (flags & O_DIRECT) != 0) {
        (void)::fcntl(fd, F_SETFL, flags & ~O_DIRECT);
    }
}

}  // namespace

OutputFile OutputFile::created(int fd, const fs::path& path) {
    if (fd < 0 && errno == EEXIST) {
        throw Error(ErrorCode::target, "cannot create " + path.string() + ": it exists",
                    "remove it, or take --overwrite");
    }
    if (fd < 0) {
        throw_errno(errno, "create", path);
    }
    return {fd, path};
}

OutputFile OutputFile::opened(int fd, const fs::path& path) {
    if (fd < 0) {
        throw_errno(errno, "open for writing", path);
    }
    return {fd, path};
}

OutputFile OutputFile::create(const fs::path& path) {
    return created(retried([&] { return ::open(path.c_str(), kNew, kMode); }), path);
}

OutputFile OutputFile::create(const Directory& directory, const fs::path& name) {
    const int at = directory.fd();
    return created(retried([&] { return ::openat(at, name.c_str(), kNew, kMode); }),
                   directory.path() / name);
}

OutputFile OutputFile::open_or_create(const fs::path& path) {
    const int fd =
        retried([&] { return ::open(path.c_str(), kThere | O_NOFOLLOW | O_CREAT, kMode); });
    require_regular(fd, path);
    return {fd, path};
}

OutputFile OutputFile::open_existing(const fs::path& path) {
    return opened(retried([&] { return ::open(path.c_str(), kThere); }), path);
}

OutputFile OutputFile::open_existing(const Directory& directory, const fs::path& name) {
    const int at = directory.fd();
    return opened(retried([&] { return ::openat(at, name.c_str(), kThere | O_NOFOLLOW); }),
                  directory.path() / name);
}

OutputFile OutputFile::open_direct(const Directory& directory, const fs::path& name) {
    const int at = directory.fd();
    const fs::path path = directory.path() / name;
    const int fd =
        retried([&] { return ::openat(at, name.c_str(), kThere | O_NOFOLLOW | O_DIRECT); });
    if (fd < 0 && errno == EINVAL) {
        throw Error(ErrorCode::unsupported,
                    "the file system of " + path.string() + " does not do direct I/O",
                    "leave out --direct_io");
    }
    if (fd < 0) {
        throw_errno(errno, "open for direct writing", path);
    }
    return {fd, path};
}

void OutputFile::resize(Bytes size) {
    const int status = retried([&] { return ::ftruncate(fd(), file_offset(size, path_)); });
    if (status != 0) {
        throw_errno(errno, "resize to " + std::to_string(size) + " bytes:", path_);
    }
}

void OutputFile::reserve(Bytes size) {
    (void)file_offset(size, path_);
    // XFS wants room for the whole range, also for what has its blocks: a merge that goes on where
    // little is left would fail.
    for (const auto& [begin, end] : ranges_without_blocks(fd(), size)) {
        const Bytes length = end - begin;
        const int status = retried([&, at = begin] {
            return ::fallocate(fd(), 0, static_cast<off_t>(at), static_cast<off_t>(length));
        });
        if (status != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
            throw_errno(errno, "reserve " + std::to_string(length) + " bytes for", path_);
        }
    }
}

void OutputFile::take_turns() {
    struct statfs system {};
    takes_turns_ = retried([&] { return ::fstatfs(fd(), &system); }) == 0 &&
                   is_local(static_cast<std::uint64_t>(system.f_type));
}

void OutputFile::write_at(Bytes offset, ByteView data, Bytes most) const {
    file_offset(checked_add_bytes(offset, data.size(), "the end of a write"), path_);
    // Without a lock there are no turns: nothing depends on them.
    const bool has_turn = takes_turns_ && retried([&] { return ::flock(fd(), LOCK_EX); }) == 0;
    const std::optional<Error> failure = error_of([&] { put_at(offset, data, most); });
    if (has_turn) {
        (void)::flock(fd(), LOCK_UN);
    }
    if (failure) {
        throw Error(*failure);
    }
}

void OutputFile::put_at(Bytes offset, ByteView data, Bytes most) const {
    std::size_t done = 0;
    while (done < data.size()) {
        const std::size_t wanted = std::min<Bytes>(data.size() - done, most);
        const ssize_t put = retried([&] {
            return ::pwrite(fd(), data.data() + done, wanted, static_cast<off_t>(offset + done));
        });
        if (put <= 0) {
            // A regular file that takes nothing without saying why has no room.
            throw_errno(put < 0 ? errno : ENOSPC,
                        "write " + std::to_string(wanted) + " bytes at offset " +
                            std::to_string(offset + done) + " of",
                        path_);
        }
        done += as_size(put);
        if (done < data.size() && done % kDirectBlock != 0) {
            end_direct(fd());
        }
    }
}

void OutputFile::sync() const {
    const int status = retried([&] { return ::fsync(fd()); });
    if (status != 0) {
        throw_errno(errno, "sync", path_);
    }
}

void OutputFile::start_writeback(Bytes offset, Bytes size) const {
    // A hint: what goes wrong with the bytes is told by finish_writeback, sync or close.
    (void)::sync_file_range(fd(), file_offset(offset, path_), static_cast<off_t>(size),
                            SYNC_FILE_RANGE_WRITE);
}

void OutputFile::finish_writeback(Bytes offset, Bytes size) const {
    const auto begin = file_offset(offset, path_);
    const int status = retried([&] {
        return ::sync_file_range(
            fd(), begin, static_cast<off_t>(size),
            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    });
    if (status != 0 && (errno == EIO || errno == ENOSPC || errno == EDQUOT)) {
        throw_errno(errno,
                    "bring " + std::to_string(size) + " bytes at offset " + std::to_string(offset) +
                        " to the disk, of",
                    path_);
    }
    (void)::posix_fadvise(fd(), begin, static_cast<off_t>(size), POSIX_FADV_DONTNEED);
}

void OutputFile::close() {
    // The descriptor is gone whatever close(2) answers on Linux: never close twice.
    const int fd = fd_.release();
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
        throw_errno(errno, "close", path_);
    }
}

}  // namespace shardweld::io
