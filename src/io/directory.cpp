#include "directory.hpp"

#include <cerrno>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "errno.hpp"
#include "paths.hpp"

namespace shardweld::io {

namespace {

// Who may write into a directory need not have the right to list it.
constexpr int kHeld = O_PATH | O_DIRECTORY | O_CLOEXEC;

}  // namespace

Directory::Directory(const fs::path& path) : path_(path) {
    const int fd = retried([&] { return ::open(path.c_str(), kHeld); });
    if (fd >= 0) {
        fd_ = std::make_shared<const Descriptor>(fd);
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
    fd_ = std::make_shared<const Descriptor>(fd);
}

int Directory::fd() const {
    if (error_ != 0) {
        throw_errno(error_, "open directory", path_);
    }
    if (!fd_) {
        throw Error(ErrorCode::target, "there is no directory " + path_.string());
    }
    return fd_->get();
}

void Directory::require_same() const {
    if (error_ != 0) {
        throw_errno(error_, "open directory", path_);
    }
    struct stat held {};
    struct stat named {};
    if (!fd_ || ::fstat(fd_->get(), &held) != 0) {
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

namespace {

Identity identity_in(const struct stat& status) {
    return {status.st_ino, static_cast<Bytes>(status.st_size), status.st_mode};
}

/// A descriptor that reads and syncs, which one of O_PATH does not.
int opened(const Directory& directory) {
    const int held = directory.fd();
    const int fd = retried([&] { return ::openat(held, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) {
        throw_errno(errno, "open directory", directory.path());
    }
    return fd;
}

using Stream = std::unique_ptr<DIR, decltype([](DIR* one) { ::closedir(one); })>;

bool is_directory_at(const Directory& directory, const dirent& entry) {
    if (entry.d_type != DT_UNKNOWN) {
        return entry.d_type == DT_DIR;
    }
    const auto found = identity_at(directory, entry.d_name);
    return found && S_ISDIR(found->mode);
}

void list_below(const Directory& directory, const fs::path& prefix, std::vector<Below>& all) {
    for (const Below& entry : listed(directory)) {
        if (entry.is_directory) {
            list_below(Directory(directory, entry.name), prefix / entry.name, all);
        }
        all.push_back({prefix / entry.name, entry.is_directory});
    }
}

}  // namespace

std::optional<Identity> identity_at(const Directory& directory, const fs::path& name) {
    struct stat status {};
    if (::fstatat(directory.fd(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
        if (!means_absent(errno)) {
            throw_errno(errno, "examine", directory.path() / name);
        }
        return std::nullopt;
    }
    return identity_in(status);
}

Identity identity_of(int fd, const fs::path& path) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        throw_errno(errno, "examine", path);
    }
    return identity_in(status);
}

std::vector<Below> listed(const Directory& directory) {
    const int fd = opened(directory);
    const Stream stream(::fdopendir(fd));
    if (!stream) {
        const int error = errno;
        ::close(fd);
        throw_errno(error, "read directory", directory.path());
    }
    std::vector<Below> entries;
    errno = 0;
    while (const dirent* const entry = ::readdir(stream.get())) {
        if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) {
            entries.push_back({entry->d_name, is_directory_at(directory, *entry)});
        }
        errno = 0;
    }
    if (errno == EINTR) {
        return listed(directory);
    }
    if (errno != 0) {
        throw_errno(errno, "read directory", directory.path());
    }
    return entries;
}

std::vector<Below> listed_below(const Directory& directory) {
    std::vector<Below> all;
    list_below(directory, {}, all);
    return all;
}

void remove_below(const Directory& directory, const fs::path& name) {
    const auto remove = [&](const Directory& above, const fs::path& what, int flags) {
        if (::unlinkat(above.fd(), what.c_str(), flags) != 0 && !means_absent(errno)) {
            throw_errno(errno, "remove", above.path() / what);
        }
    };
    const auto found = identity_at(directory, name);
    if (!found) {
        return;
    }
    if (!S_ISDIR(found->mode)) {
        return remove(directory, name, 0);
    }
    const Directory all(directory, name);
    for (const Below& entry : listed(all)) {
        remove_below(all, entry.name);
    }
    remove(directory, name, AT_REMOVEDIR);
}

std::vector<fs::path> make_below(const Directory& directory, const fs::path& name) {
    std::vector<fs::path> made;
    fs::path whole;
    for (const fs::path& part : name) {
        whole /= part;
        if (::mkdirat(directory.fd(), whole.c_str(), 0777) == 0) {
            made.push_back(whole);
        } else if (errno != EEXIST) {
            throw_errno(errno, "create directory", directory.path() / whole);
        } else if (const auto found = identity_at(directory, whole);
                   !found || !S_ISDIR(found->mode)) {
            throw Error(ErrorCode::target,
                        (directory.path() / whole).string() + " is in the way of a directory",
                        "remove it or give another path");
        }
    }
    return made;
}

void sync_and_close(int directory, const fs::path& path) {
    const int status = retried([&] { return ::fsync(directory); });
    const int error = errno;
    ::close(directory);
    // Some network file systems have no fsync of a directory and say EINVAL.
    if (status != 0 && error != EINVAL) {
        throw_errno(error, "sync directory", path);
    }
}

void sync(const Directory& directory) {
    sync_and_close(opened(directory), directory.path());
}

}  // namespace shardweld::io
