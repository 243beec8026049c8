#include "shardweld/io/directory.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/core/error.hpp"
#include "shardweld/io/file.hpp"
#include "shardweld/io/kind.hpp"

#include "retried.hpp"

namespace shardweld::io {

Directory::Directory(const fs::path& path) : path_(path) {
    const int fd =
        retried([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd >= 0) {
        fd_ = {new int(fd), [](const int* held) {
                   ::close(*held);
                   delete held;
               }};
    } else if (!means_absent(errno)) {
        error_ = errno;
    }
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
                        " is no longer the directory that this run writes: it was removed, or "
                        "another run has taken its place when the first rank of this one had "
                        "ended; nothing more is written there");
    }
}

}  // namespace shardweld::io
