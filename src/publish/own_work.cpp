#include "own_work.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "inside.hpp"

namespace shardweld::publish {

namespace {

std::string octal(mode_t mode) {
    std::array<char, 16> text{};
    (void)std::snprintf(text.data(), text.size(), "%04o", mode & 07777U);
    return text.data();
}

struct stat look_at(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", path);
    }
    return status;
}

/// The umask can only be read by setting it.
mode_t current_umask() {
    const mode_t mask = ::umask(0077);
    (void)::umask(mask);
    return mask;
}

/// The bits by which somebody else may write, that this run would not set itself.
mode_t foreign_bits(const fs::path& partial) {
    mode_t bits = current_umask() & (S_IWGRP | S_IWOTH);
    const struct stat above = look_at(partial.parent_path());
    if ((above.st_mode & S_IWGRP) != 0 && above.st_gid == look_at(partial).st_gid) {
        bits &= ~static_cast<mode_t>(S_IWGRP);
    }
    return bits;
}

/// Why this is no work of the owner's alone; "" if it is.
std::string fault_of(const struct stat& status, mode_t kind, uid_t owner, mode_t foreign) {
    if ((status.st_mode & S_IFMT) != kind) {
        return kind == S_IFDIR ? "is not a directory" : "is not a regular file";
    }
    if (status.st_uid != owner) {
        return "belongs to user " + std::to_string(status.st_uid) + ", not to user " +
               std::to_string(owner) + " who runs this";
    }
    if ((status.st_mode & foreign) != 0) {
        return "is writable by others (mode " + octal(status.st_mode) + ")";
    }
    return kind == S_IFREG && status.st_nlink != 1 ? "has other names (hard links)" : "";
}

}  // namespace

uid_t owner_of_new_files(int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 ? status.st_uid : ::geteuid();
}

void require_own_work(const fs::path& partial, uid_t owner) {
    const mode_t foreign = foreign_bits(partial);
    const auto require = [&](const fs::path& path, mode_t kind) {
        if (const std::string why = fault_of(look_at(path), kind, owner, foreign); !why.empty()) {
            throw Error(
                ErrorCode::target,
                "cannot continue the earlier merge: " + printable(path.string(), 1000) + " " + why +
                    ", and what it says was written is believed",
                "start from the beginning with --restart, which removes " + partial.string());
        }
    };
    const fs::path journal = partial / kJournal;
    require(partial, S_IFDIR);
    require(journal, S_IFDIR);
    for (const fs::directory_entry& entry : io::entries_of(journal)) {
        require(entry.path(), S_IFREG);
    }
}

}  // namespace shardweld::publish
