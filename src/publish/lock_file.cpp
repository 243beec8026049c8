#include "lock_file.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/process/system.hpp"
#include "core/text.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

#include "traces.hpp"

namespace shardweld::publish {

namespace {

constexpr const char* kUnknown = "-";

std::string word(const std::string& text) {
    return text.empty() ? kUnknown : text;
}

}  // namespace

Holder this_process(std::string job, Index restarts) {
    return {host_name(), ::getpid(), std::move(job), restarts, boot_id()};
}

std::string text_of(const Holder& holder) {
    return word(holder.host) + " " + std::to_string(holder.process) + " " + word(holder.job) + " " +
           std::to_string(holder.restarts) + " " + word(holder.boot) + "\n";
}

Holder holder_from(const std::string& text) {
    Holder holder;
    const auto words = split(trim(text), ' ');
    const auto at = [&](std::size_t index) {
        const bool is_there = index < words.size() && words[index] != kUnknown;
        return is_there ? std::string(words[index]) : std::string();
    };
    holder.host = at(0);
    holder.process = parse_index(at(1)).value_or(0);
    holder.job = at(2);
    holder.restarts = parse_index(at(3)).value_or(0);
    holder.boot = at(4);
    return holder;
}

std::string name_of(const Holder& holder) {
    if (holder.host.empty() || holder.process <= 0) {
        return "a process that left no name";
    }
    return "process " + std::to_string(holder.process) +
           (holder.job.empty() ? "" : " of job " + printable(holder.job)) + " on host " +
           printable(holder.host);
}

bool is_over(const Holder& holder, const Holder& own) {
    if (!holder.job.empty() && holder.job == own.job && holder.restarts < own.restarts) {
        return true;
    }
    if (holder.host != own.host || holder.process <= 0) {
        return false;
    }
    return (!holder.boot.empty() && !own.boot.empty() && holder.boot != own.boot) ||
           (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH);
}

namespace {

constexpr int kAttempts = 100;
constexpr int kOpenFlags = O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;

/// What flock(2) says; `none`: this file system has no locks.
enum class Flock { taken, held, none };

Flock try_flock(int fd, int how) {
    int status = 0;
    do {
        status = ::flock(fd, how | LOCK_NB);
    } while (status != 0 && errno == EINTR);
    return status == 0 ? Flock::taken : errno == EWOULDBLOCK ? Flock::held : Flock::none;
}

Holder holder_by(int fd) {
    std::array<char, 600> text{};
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    return holder_from(n > 0 ? std::string(text.data(), as_size(n)) : "");
}

void say_holder(int fd, const Holder& own) {
    const std::string text = text_of(own);
    // The lock holds without it.
    if (::ftruncate(fd, 0) == 0) {
        (void)!::pwrite(fd, text.data(), text.size(), 0);
    }
}

bool is_same_file(int fd, const fs::path& path) {
    struct stat held {};
    struct stat named {};
    return ::fstat(fd, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
           held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

/// Whether a file that was found is one that a run of this user has left: not somebody else's,
/// which may have another name for what is written into it.
bool is_left_by_own_run(int fd) {
    struct stat held {};
    return ::fstat(fd, &held) == 0 && S_ISREG(held.st_mode) && held.st_uid == ::geteuid() &&
           held.st_nlink == 1;
}

/// `is_sure`: the system says that the holder runs.
[[noreturn]] void refuse(const Holder& holder, const fs::path& path, const fs::path& target,
                         bool is_sure) {
    throw Error(ErrorCode::locked,
                "another run is writing " + target.string() + ": " + name_of(holder) + " holds " +
                    path.string(),
                std::string("wait for it or choose another --target_dir") +
                    (is_sure ? ""
                             : " (this file system has no locks: if that run has ended, remove " +
                                   path.string() + ")"));
}

/// Takes a lock file away that is not this user's, and closes it.
void remove_foreign(int fd, const fs::path& path, const fs::path& target) {
    struct stat held {};
    (void)::fstat(fd, &held);
    const bool is_removed = ::unlink(path.c_str()) == 0 || errno == ENOENT;
    ::close(fd);
    if (!is_removed) {
        throw Error(ErrorCode::target,
                    "the lock file " + path.string() + " belongs to user " +
                        std::to_string(held.st_uid) + " and cannot be removed",
                    "remove it if no run of theirs is writing " + target.string() +
                        ", or choose another --target_dir");
    }
}

/// Removes the file of a run that is over; false when it may be alive. One run at a time does that,
/// so that the file that goes is the one that was looked at.
bool remove_dead(const fs::path& path, const Holder& own) {
    const auto may_go = [&] {
        const auto holder = holder_in(path);
        return !holder || is_over(*holder, own);
    };
    if (!may_go()) {
        return false;
    }
    const fs::path claim = path.string() + ".stale";
    const int fd = ::open(claim.c_str(), O_WRONLY | O_CREAT | O_EXCL | kOpenFlags, 0666);
    if (fd < 0) {
        return false;
    }
    ::close(fd);
    const bool goes = may_go();
    if (goes) {
        (void)::unlink(path.c_str());
    }
    (void)::unlink(claim.c_str());
    return goes;
}

/// Whether a lock that the system says is held belongs to an earlier start of this job.
bool is_lost(const Holder& holder, const Holder& own) {
    return holder.host != own.host && is_over(holder, own);
}

/// Its descriptor, and whether it was made. -1: errno says why; EINTR: to be tried again.
std::pair<int, bool> open_lock(const fs::path& path) {
    const int made = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | kOpenFlags, 0666);
    if (made >= 0 || errno != EEXIST) {
        return {made, made >= 0};
    }
    const int fd = ::open(path.c_str(), O_RDWR | kOpenFlags);
    if (fd < 0 && errno == ENOENT) {
        errno = EINTR;
    }
    return {fd, false};
}

/// Creates and locks the file, writing `own` into it; the descriptor holds the lock. Errors as
/// TargetLock's. Returns -1 with errno when the directory does not allow to create files.
int try_lock_file(const fs::path& path, const fs::path& target, const Holder& own) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const auto [fd, is_made] = open_lock(path);
        if (fd < 0 && errno == EINTR) {
            continue;
        }
        if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
            return -1;
        }
        if (fd < 0) {
            io::throw_errno(errno, "create lock file", path);
        }
        const Flock lock = try_flock(fd, LOCK_EX);
        // A holder that just ended removed the file: what was locked is no longer the lock. Without
        // locks the file is whose who made it.
        if (lock == Flock::taken ? is_same_file(fd, path) : lock == Flock::none && is_made) {
            if (is_made || is_left_by_own_run(fd)) {
                say_holder(fd, own);
                return fd;
            }
            // Nobody holds it: one of this run's own takes its place, and nothing is written to it.
            remove_foreign(fd, path, target);
            continue;
        }
        const Holder holder = holder_by(fd);
        ::close(fd);
        const bool may_be_dead = lock == Flock::none || is_lost(holder, own);
        if (lock != Flock::taken && !(may_be_dead && remove_dead(path, own))) {
            refuse(holder, path, target, lock == Flock::held);
        }
    }
    throw Error(ErrorCode::locked, "cannot lock " + path.string() + ": other runs keep taking it");
}

}  // namespace

std::optional<Holder> holder_in(const fs::path& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | kOpenFlags);
    if (fd < 0) {
        return errno == ENOENT ? std::nullopt : std::optional<Holder>(Holder());
    }
    Holder holder = holder_by(fd);
    ::close(fd);
    return holder;
}

void require_free(const fs::path& path, const fs::path& target, const Holder& own) {
    int fd = -1;
    do {
        fd = ::open(path.c_str(), O_RDONLY | kOpenFlags);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) {
        if (!io::means_absent(errno)) {
            io::throw_errno(errno, "check whether another run holds", path);
        }
        return;
    }
    const Flock lock = try_flock(fd, LOCK_SH);
    const Holder holder = holder_by(fd);
    ::close(fd);
    if (lock == Flock::held ? !is_lost(holder, own)
                            : lock == Flock::none && !is_over(holder, own)) {
        refuse(holder, path, target, lock == Flock::held);
    }
}

TargetLock::TargetLock(const fs::path& target, const Holder& own)
    : path_(beside(target, kLockTrace)) {
    const bool exists = io::kind_at(target) != io::FileKind::none;
    if (!exists || !is_mount_point(target)) {
        fd_ = try_lock_file(path_, target, own);
    }
    if (fd_ < 0 && exists) {
        is_inside_ = true;
        path_ = target / kLockTrace;
        fd_ = try_lock_file(path_, target, own);
    }
    if (fd_ < 0) {
        const std::string reason = text_of_errno(errno);
        throw Error(ErrorCode::io,
                    "cannot create " + path_.string() + ": no right to write there: " + reason,
                    "choose another --target_dir");
    }
    try {
        require_free(is_inside_ ? beside(target, kLockTrace) : target / kLockTrace, target, own);
    } catch (...) {
        release();
        throw;
    }
}

TargetLock::TargetLock(TargetLock&& other) noexcept
    : path_(std::move(other.path_)),
      is_inside_(other.is_inside_),
      fd_(std::exchange(other.fd_, -1)) {}

void TargetLock::release() noexcept {
    if (fd_ < 0) {
        return;
    }
    if (is_same_file(fd_, path_)) {
        (void)::unlink(path_.c_str());
    }
    (void)::close(std::exchange(fd_, -1));
}

}  // namespace shardweld::publish
