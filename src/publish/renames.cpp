#include "renames.hpp"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "io/errno.hpp"

namespace shardweld::publish {

namespace {

int rename_at(const NameInDirectory& from, const NameInDirectory& to, unsigned flags) {
    const int from_at = from.directory.fd();
    const int to_at = to.directory.fd();
    return flags == 0 ? ::renameat(from_at, from.name.c_str(), to_at, to.name.c_str())
                      : ::renameat2(from_at, from.name.c_str(), to_at, to.name.c_str(), flags);
}

}  // namespace

bool Renames::try_one(const Done& step) {
    // Written down first: what has been done must be known, also when memory runs out.
    done_.push_back(step);
    const int status = rename_at(step.from, step.to, step.flags);
    if (status != 0) {
        const int error = errno;
        done_.pop_back();
        errno = error;
    }
    return status == 0;
}

void Renames::rename(const NameInDirectory& from, const NameInDirectory& to) {
    if (!try_one({from, to})) {
        io::throw_errno(errno, "rename " + from.path().string() + " to", to.path());
    }
}

bool Renames::exchange(const NameInDirectory& a, const NameInDirectory& b) {
    const bool is_done = try_one({a, b, RENAME_EXCHANGE});
    if (!is_done && errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) {
        io::throw_errno(errno, "exchange " + a.path().string() + " with", b.path());
    }
    return is_done;
}

void Renames::make_directories(const NameInDirectory& place) {
    for (const fs::path& made : io::make_below(place.directory, place.name)) {
        made_.push_back({place.directory, made});
    }
}

std::string Renames::undo() noexcept {
    std::string left;
    for (; !done_.empty(); done_.pop_back()) {
        const Done& step = done_.back();
        if (rename_at(step.to, step.from, step.flags) != 0) {
            left += (left.empty() ? "" : ", ") + step.to.path().string();
        }
    }
    for (; !made_.empty(); made_.pop_back()) {
        (void)::unlinkat(made_.back().directory.fd(), made_.back().name.c_str(), AT_REMOVEDIR);
    }
    return left;
}

}  // namespace shardweld::publish
