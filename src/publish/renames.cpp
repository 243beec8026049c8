#include "renames.hpp"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>

#include "shardweld/io/file.hpp"

#include "directories.hpp"

namespace shardweld::publish {

bool Renames::try_one(const Done& step) {
    // Written down first: what has been done must be known, also when memory runs out.
    done_.push_back(step);
    const int status = step.flags == 0 ? ::rename(step.from.c_str(), step.to.c_str())
                                       : ::renameat2(AT_FDCWD, step.from.c_str(), AT_FDCWD,
                                                     step.to.c_str(), step.flags);
    if (status != 0) {
        const int error = errno;
        done_.pop_back();
        errno = error;
    }
    return status == 0;
}

void Renames::rename(const fs::path& from, const fs::path& to) {
    if (!try_one({from, to})) {
        io::throw_errno(errno, "rename " + from.string() + " to", to);
    }
}

bool Renames::exchange(const fs::path& a, const fs::path& b) {
    const bool is_done = try_one({a, b, RENAME_EXCHANGE});
    if (!is_done && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
        io::throw_errno(errno, "exchange " + a.string() + " with", b);
    }
    return is_done;
}

void Renames::make_directories(const fs::path& directory) {
    publish::make_directories(directory, made_);
}

std::string Renames::undo() noexcept {
    std::string left;
    for (; !done_.empty(); done_.pop_back()) {
        const Done& step = done_.back();
        const int status = step.flags == 0 ? ::rename(step.to.c_str(), step.from.c_str())
                                           : ::renameat2(AT_FDCWD, step.to.c_str(), AT_FDCWD,
                                                         step.from.c_str(), step.flags);
        if (status != 0) {
            left += (left.empty() ? "" : ", ") + step.to.string();
        }
    }
    remove_directories(made_);
    return left;
}

}  // namespace shardweld::publish
