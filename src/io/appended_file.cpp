#include "appended_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "directory.hpp"
#include "errno.hpp"

namespace shardweld::io {

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

AppendedFile::AppendedFile(const Directory& directory, const fs::path& name) {
    constexpr int kFlags =
        O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    constexpr mode_t kMode = 0666;  // less the umask
    const int at = directory.fd();
    fd_ = retried([&] { return ::openat(at, name.c_str(), kFlags, kMode); });
    require_regular(fd_, directory.path() / name);
}

AppendedFile::~AppendedFile() {
    (void)::close(fd_);
}

bool AppendedFile::add(std::string_view text) const {
    return retried([&] { return ::write(fd_, text.data(), text.size()); }) ==
           static_cast<ssize_t>(text.size());
}

}  // namespace shardweld::io
