#include "lock_file.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/core/error.hpp"
#include "shardweld/core/text.hpp"
#include "shardweld/io/file.hpp"

namespace shardweld::publish {

namespace {

constexpr int kAttempts = 100;

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

/// The holder's own words: "HOST PID" or "HOST PID JOB".
std::string content(int fd) {
    std::array<char, 300> text{};
    const ssize_t n = ::pread(fd, text.data(), text.size(), 0);
    return n > 0 ? std::string(text.data(), static_cast<std::size_t>(n)) : std::string();
}

void say_holder(int fd, const std::string& job) {
    const std::string text =
        host_name() + " " + std::to_string(::getpid()) + (job.empty() ? "" : " " + job) + "\n";
    // The text only helps people; the lock holds without it.
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

std::string name_of_holder(const std::string& holder) {
    const auto parts = split(trim(holder), ' ');
    if (parts.size() < 2) {
        return "a process that left no name";
    }
    return "process " + printable(parts[1]) +
           (parts.size() > 2 ? " of job " + printable(parts[2]) : "") + " on host " +
           printable(parts[0]);
}

/// `is_sure`: the system says that the holder runs.
[[noreturn]] void refuse(const std::string& holder, const fs::path& path, const fs::path& target,
                         bool is_sure) {
    throw Error(ErrorCode::target,
                "another run is writing " + target.string() + ": " + name_of_holder(holder) +
                    " holds " + path.string() + "; wait for it or choose another --target_dir" +
                    (is_sure ? ""
                             : " (this file system has no locks: if that run has ended, remove the "
                               "file)"));
}

/// Without locks: whether the process that wrote `holder` is known to be gone.
bool is_gone(const std::string& holder) {
    const auto parts = split(trim(holder), ' ');
    if (parts.size() < 2 || parts[0] != host_name()) {
        return holder.empty();
    }
    const std::optional<Index> pid = parse_index(parts[1]);
    return pid && *pid > 0 && ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

int try_lock_file(const fs::path& path, const fs::path& target, const std::string& job) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        const int fd =
            ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
        if (fd < 0 && errno == EINTR) {
            continue;
        }
        if (fd < 0 && (errno == EACCES || errno == EPERM || errno == EROFS)) {
            return -1;
        }
        if (fd < 0) {
            io::throw_errno(errno, "create lock file", path);
        }
        const bool is_locked = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
        const bool is_held = !is_locked && errno == EWOULDBLOCK;
        if (is_held || (!is_locked && !is_gone(content(fd)))) {
            const std::string holder = content(fd);
            ::close(fd);
            refuse(holder, path, target, is_held);
        }
        // A holder that just ended removed the file: what was locked is no longer the lock.
        if (is_same_file(fd, path)) {
            say_holder(fd, job);
            return fd;
        }
        ::close(fd);
    }
    throw Error(ErrorCode::target, "cannot lock " + path.string() + ": other runs keep taking it");
}

void unlock_file(int fd, const fs::path& path) noexcept {
    if (fd >= 0) {
        (void)::unlink(path.c_str());
        (void)::close(fd);
    }
}

}  // namespace shardweld::publish
