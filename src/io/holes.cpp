#include "holes.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "errno.hpp"

namespace shardweld::io {

namespace {

constexpr Bytes kTried = 64 * kHoleBlock;

int opened_for_holes(const fs::path& path, int flags) {
    const int fd = retried([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0600); });
    if (fd < 0) {
        throw_errno(errno, "open", path);
    }
    return fd;
}

/// 0, or why not.
int punched_there(int fd, Bytes begin, Bytes end) {
    const int answer = retried([&] {
        return ::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                           static_cast<off_t>(begin), static_cast<off_t>(end - begin));
    });
    return answer == 0 ? 0 : errno;
}

bool means_unsupported(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == ENODEV;
}

/// A file without a name; one that is removed at once where the file system has none such.
int nameless_file(const fs::path& directory) {
    const int fd =
        retried([&] { return ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
    if (fd >= 0) {
        return fd;
    }
    const fs::path path = directory / (".shardweld-holes-" + std::to_string(::getpid()));
    const int named = opened_for_holes(path, O_RDWR | O_CREAT | O_EXCL);
    (void)::unlink(path.c_str());
    return named;
}

Bytes disk_blocks_of(int fd, const fs::path& path) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        throw_errno(errno, "examine", path);
    }
    return static_cast<Bytes>(status.st_blocks);
}

void fill_tried(int fd, const fs::path& path) {
    const std::array<std::byte, kHoleBlock> block{std::byte{1}};
    for (Bytes at = 0; at < kTried; at += block.size()) {
        if (retried([&] {
                return ::pwrite(fd, block.data(), block.size(), static_cast<off_t>(at));
            }) != static_cast<ssize_t>(block.size())) {
            throw_errno(errno, "write a file in", path);
        }
    }
    if (::fsync(fd) != 0) {
        throw_errno(errno, "sync a file in", path);
    }
}

}  // namespace

HoleFile HoleFile::open(const fs::path& path) {
    return {opened_for_holes(path, O_WRONLY | O_NOFOLLOW), path};
}

void HoleFile::punch(Bytes begin, Bytes end) const {
    const Bytes first = (begin + kHoleBlock - 1) / kHoleBlock * kHoleBlock;
    const Bytes last = end / kHoleBlock * kHoleBlock;
    if (first >= last) {
        return;
    }
    const int error = punched_there(fd_, first, last);
    if (means_unsupported(error)) {
        throw Error(ErrorCode::unsupported,
                    "the file system of " + path_.string() + " does not give parts of files back");
    }
    if (error != 0) {
        throw_errno(error, "give back a part of", path_);
    }
}

HoleFile::HoleFile(HoleFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}

HoleFile& HoleFile::operator=(HoleFile&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
}

HoleFile::~HoleFile() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

bool can_punch(const fs::path& directory) {
    const HoleFile file(nameless_file(directory), directory);
    fill_tried(file.fd_, directory);
    const Bytes before = disk_blocks_of(file.fd_, directory);
    return punched_there(file.fd_, 0, kTried) == 0 && disk_blocks_of(file.fd_, directory) < before;
}

bool is_open_elsewhere(const fs::path& path) {
    const HoleFile file(opened_for_holes(path, O_RDWR | O_NOFOLLOW), path);
    const bool is_busy = ::fcntl(file.fd_, F_SETLEASE, F_WRLCK) != 0 && errno == EAGAIN;
    (void)::fcntl(file.fd_, F_SETLEASE, F_UNLCK);
    return is_busy;
}

}  // namespace shardweld::io
