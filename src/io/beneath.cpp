#include "beneath.hpp"

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/lists.hpp"
#include "shardweld/error.hpp"

#include "descriptor.hpp"
#include "errno.hpp"
#include "input_file.hpp"

namespace shardweld::io {

namespace {

constexpr int kReading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW;
constexpr int kOnTheWay = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

/// Why a path leads to no file below a directory; 0 if it may.
int fault_of(const fs::path& relative) {
    if (relative.empty() || relative.is_absolute() || !relative.has_filename()) {
        return EINVAL;
    }
    return !contains(relative, "..") ? 0 : EXDEV;
}

int by_kernel(int directory, const fs::path& relative) {
    struct open_how how {};
    how.flags = static_cast<std::uint64_t>(kReading);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return retried([&] {
        return static_cast<int>(
            ::syscall(SYS_openat2, directory, relative.c_str(), &how, sizeof how));
    });
}

[[noreturn]] void throw_replaced(const fs::path& path) {
    throw Error(ErrorCode::io,
                path.string() +
                    " was changed while it was being looked at: it leads elsewhere "
                    "by now",
                "wait for its writer to end, and start again");
}

fs::path end_of(const fs::path& path) {
    std::error_code failed;
    fs::path end = fs::canonical(path, failed);
    if (failed) {
        throw_errno(failed.value(), "open", path);
    }
    return end;
}

}  // namespace

int walk_beneath(int directory, const fs::path& relative) {
    if (const int fault = fault_of(relative); fault != 0) {
        errno = fault;
        return -1;
    }
    Descriptor at(retried([&] { return ::openat(directory, ".", kOnTheWay); }));
    for (const fs::path& part : relative.parent_path()) {
        if (at.get() < 0) {
            return -1;
        }
        at = Descriptor(retried([&] { return ::openat(at.get(), part.c_str(), kOnTheWay); }));
    }
    const fs::path name = relative.filename();
    return at.get() < 0 ? -1 : retried([&] { return ::openat(at.get(), name.c_str(), kReading); });
}

int open_beneath(int directory, const fs::path& relative) {
    if (const int fault = fault_of(relative); fault != 0) {
        errno = fault;
        return -1;
    }
    const int fd = by_kernel(directory, relative);
    // Older kernels, and containers whose filter does not know the call.
    return fd < 0 && (errno == ENOSYS || errno == EPERM) ? walk_beneath(directory, relative) : fd;
}

InputFile open_within(const fs::path& path, const fs::path& root) {
    const fs::path end = end_of(path);
    const fs::path home = home_of(end, end_of(root));
    if (home.empty()) {
        throw_replaced(path);
    }
    const Descriptor directory(retried([&] { return ::open(home.c_str(), kOnTheWay); }));
    const int fd =
        directory.get() < 0 ? -1 : open_beneath(directory.get(), end.lexically_relative(home));
    if (fd >= 0) {
        return InputFile::adopt(fd, path);
    }
    if (errno == ELOOP || errno == EXDEV || errno == ENOTDIR || errno == EAGAIN) {
        throw_replaced(path);
    }
    if (errno == ENXIO || errno == ENODEV) {
        throw Error(ErrorCode::unsupported,
                    path.string() + " is a socket or an absent device; expected a regular file");
    }
    throw_errno(errno, "open", path);
}

namespace {

bool is_below(const fs::path& path, const fs::path& root) {
    return std::ranges::mismatch(root, path).in1 == root.end();
}

/// The blobs of the cached repository that a snapshot's directory lies in; "" for others.
/// Source: huggingface_hub 1.x, file_download.py (layout of the cache).
fs::path blobs_for(const fs::path& root) {
    const fs::path snapshots = root.parent_path();
    return snapshots.filename() == "snapshots" ? snapshots.parent_path() / "blobs" : fs::path();
}

}  // namespace

fs::path home_of(const fs::path& end, const fs::path& root) {
    if (is_below(end, root)) {
        return root;
    }
    const fs::path blobs = blobs_for(root);
    return !blobs.empty() && is_below(end, blobs) ? blobs : fs::path();
}

std::optional<fs::path> leads_out_of(const fs::path& path, const fs::path& root) {
    std::error_code failed;
    const fs::path real_root = fs::canonical(root, failed);
    const fs::path end = failed ? fs::path() : fs::canonical(path, failed);
    return failed || !home_of(end, real_root).empty() ? std::nullopt : std::optional(end);
}

}  // namespace shardweld::io
