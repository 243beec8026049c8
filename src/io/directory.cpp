#include "directory.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "errno.hpp"
#include "paths.hpp"
#include "retried.hpp"

namespace shardweld::io {

namespace {

// Who may write into a directory need not have the right to list it.
constexpr int kHeld = O_PATH | O_DIRECTORY | O_CLOEXEC;

}  // namespace

Directory::Directory(const fs::path& path) : path_(path) {
    const int fd = retried([&] { return ::open(path.c_str(), kHeld); });
    if (fd >= 0) {
        hold(fd);
    } else if (!means_absent(errno)) {
        error_ = errno;
    }
}

Directory::Directory(const Directory& above, const fs::path& name) : path_(above.path() / name) {
    const int held = above.fd();
    const int fd = retried([&] { return ::openat(held, name.c_str(), kHeld | O_NOFOLLOW); });
    if (fd < 0 && means_absent(errno)) {
        throw Error(ErrorCode::target, path_.string() + " is gone or no longer a directory");
    }
    if (fd < 0) {
        throw_errno(errno, "open directory", path_);
    }
    hold(fd);
}

void Directory::hold(int fd) {
    fd_ = {new int(fd), [](const int* held) {
               ::close(*held);
               delete held;
           }};
}

int Directory::fd() const {
    if (error_ != 0) {
        throw_errno(error_, "open directory", path_);
    }
    if (!fd_) {
        throw Error(ErrorCode::target, "there is no directory " + path_.string());
    }
    return *fd_;
}

void Directory::require_same() const {
    if (error_ != 0) {
        throw_errno(error_, "open directory", path_);
    }
    struct stat held {};
    struct stat named {};
    if (!fd_ || ::fstat(*fd_, &held) != 0) {
        return;
    }
    const int status = ::stat(path_.c_str(), &named);
    if (status != 0 && !means_absent(errno)) {
        throw_errno(errno, "examine", path_);
    }
    if (status != 0 || held.st_dev != named.st_dev || held.st_ino != named.st_ino) {
        throw Error(ErrorCode::target,
                    path_.string() +
                        " is no longer the directory that this run writes: it was removed or "
                        "renamed, or another run has taken its place when the first rank of this "
                        "one had ended; nothing more is written there");
    }
}

bool Directory::is_at(const Directory& above, const fs::path& name) const {
    struct stat held {};
    struct stat named {};
    const int status = ::fstatat(above.fd(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW);
    if (status != 0 && !means_absent(errno)) {
        throw_errno(errno, "examine", above.path() / name);
    }
    if (::fstat(fd(), &held) != 0) {
        throw_errno(errno, "examine", path_);
    }
    return status == 0 && held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

}  // namespace shardweld::io
