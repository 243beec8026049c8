#include "places.hpp"

#include <cerrno>

#include <sys/stat.h>

#include "io/errno.hpp"
#include "io/paths.hpp"

namespace shardweld::publish {

bool contains_current_directory(const fs::path& directory) {
    std::error_code failed;
    const auto current = fs::current_path(failed);
    return !failed && io::is_within(current, directory);
}

bool is_mount_point(const fs::path& directory) {
    struct stat inner {};
    struct stat outer {};
    if (::stat(directory.c_str(), &inner) != 0 ||
        ::stat(directory.parent_path().c_str(), &outer) != 0) {
        io::throw_errno(errno, "look at", directory);
    }
    return inner.st_dev != outer.st_dev;
}

std::string number_of(const fs::path& directory) {
    struct stat status {};
    if (::stat(directory.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", directory);
    }
    return std::to_string(status.st_ino);
}

}  // namespace shardweld::publish
