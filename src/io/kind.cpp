#include "shardweld/io/kind.hpp"

#include <cerrno>

#include <sys/stat.h>

#include "shardweld/io/errno.hpp"

namespace shardweld::io {

bool means_absent(int error) {
    return error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG;
}

FileKind kind_at(const fs::path& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) {
        if (!means_absent(errno)) {
            throw_errno(errno, "examine", path);
        }
        return FileKind::none;
    }
    return S_ISREG(status.st_mode)   ? FileKind::file
           : S_ISDIR(status.st_mode) ? FileKind::directory
                                     : FileKind::other;
}

}  // namespace shardweld::io
