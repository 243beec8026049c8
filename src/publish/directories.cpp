#include "directories.hpp"

#include <cerrno>

#include <sys/stat.h>
#include <unistd.h>

#include "io/errno.hpp"

namespace shardweld::publish {

void make_directories(const fs::path& directory, std::vector<fs::path>& made) {
    std::error_code ignored;
    if (directory.empty() || fs::is_directory(directory, ignored)) {
        return;
    }
    if (directory.has_relative_path()) {
        make_directories(directory.parent_path(), made);
    }
    // Written down first: what has been done must be known, also when memory runs out.
    made.push_back(directory);
    if (::mkdir(directory.c_str(), 0777) == 0) {
        return;
    }
    const int error = errno;
    made.pop_back();
    if (error != EEXIST || !fs::is_directory(directory, ignored)) {
        io::throw_errno(error, "create directory", directory);
    }
}

void remove_directories(std::vector<fs::path>& made) noexcept {
    for (; !made.empty(); made.pop_back()) {
        (void)::rmdir(made.back().c_str());
    }
}

}  // namespace shardweld::publish
