#include "stamp.hpp"

#include <array>
#include <optional>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "core/lists.hpp"

#include "errno.hpp"

namespace shardweld::io {

namespace {

constexpr Index kSecond = 1'000'000'000;

Index nanoseconds(const timespec& time) {
    return time.tv_sec * kSecond + time.tv_nsec;
}

/// `ask` fills in a statfs. Of the file system asked about last it is known: on a network file
/// system every question is a request.
template <typename Ask>
FileStamp stamp_by(const struct stat& status, const Ask& ask) {
    thread_local std::optional<dev_t> asked;
    thread_local bool keeps = false;
    if (asked != status.st_dev) {
        struct statfs system {};
        const bool is_told = retried([&] { return ask(system); }) == 0;
        keeps = is_told && keeps_numbers(static_cast<std::uint64_t>(system.f_type));
        asked = status.st_dev;
    }
    FileStamp stamp{static_cast<Bytes>(status.st_size), nanoseconds(status.st_mtim)};
    if (keeps) {
        stamp.changed_ns = nanoseconds(status.st_ctim);
        stamp.inode = status.st_ino;
    }
    return stamp;
}

}  // namespace

FileStamp stamp_of(const struct stat& status, const char* path) {
    return stamp_by(status, [&](struct statfs& system) { return ::statfs(path, &system); });
}

FileStamp stamp_of(const struct stat& status, int fd) {
    return stamp_by(status, [&](struct statfs& system) { return ::fstatfs(fd, &system); });
}

const char* difference_of(const FileStamp& then, const FileStamp& now) {
    return now.inode != then.inode               ? "another file has its name"
           : now.size != then.size               ? "its size changed"
           : now.modified_ns != then.modified_ns ? "its bytes were rewritten"
                                                 : "its change time changed";
}

bool is_local(std::uint64_t kind) {
    constexpr std::array<std::uint64_t, 6> kLocal = {EXT4_SUPER_MAGIC,  XFS_SUPER_MAGIC,
                                                     BTRFS_SUPER_MAGIC, F2FS_SUPER_MAGIC,
                                                     TMPFS_MAGIC,       OVERLAYFS_SUPER_MAGIC};
    return contains(kLocal, kind);
}

bool keeps_numbers(std::uint64_t kind) {
    // Those that linux/magic.h lacks: Linux's fs/{xfs,zfs,gfs2,bcachefs}, Lustre's
    // lustre_user.h, GPFS's gpfs.h, BeeGFS's client.
    constexpr std::array<std::uint64_t, 10> kKeeping = {
        NFS_SUPER_MAGIC, OCFS2_SUPER_MAGIC,
        0x00c36400,  // CephFS
        0x2fc12fc1,  // ZFS
        0x01161970,  // GFS2
        0xca451a4e,  // bcachefs
        0x0bd00bd0,  // Lustre
        0x47504653,  // GPFS
        0x19830326,  // BeeGFS
        0x858458f6,  // ramfs
    };
    return is_local(kind) || contains(kKeeping, kind);
}

}  // namespace shardweld::io
