#include "rank_log.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/errno.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

constexpr mode_t kMode = 0666;  // less the umask

std::string name_of(int rank) {
    std::array<char, 32> name{};
    (void)std::snprintf(name.data(), name.size(), "rank-%04d.log", rank);
    return name.data();
}

/// "2026-02-28T23:59:59.123Z ".
std::string time_text() {
    using std::chrono::system_clock;
    const auto now = system_clock::now();
    const std::time_t seconds = system_clock::to_time_t(now);
    const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(
                                  now.time_since_epoch() % std::chrono::seconds(1))
                                  .count();
    std::tm parts{};
    (void)::gmtime_r(&seconds, &parts);
    std::array<char, 32> day{};
    (void)std::strftime(day.data(), day.size(), "%Y-%m-%dT%H:%M:%S", &parts);
    std::array<char, 48> text{};
    (void)std::snprintf(text.data(), text.size(), "%s.%03dZ ", day.data(),
                        static_cast<int>(milliseconds));
    return text.data();
}

}  // namespace

RankLog::RankLog(const fs::path& directory, int rank) {
    std::error_code failed;
    fs::create_directories(directory, failed);
    if (failed) {
        std::error_code unknown;
        if (fs::exists(directory, unknown)) {
            throw Error(ErrorCode::target,
                        "--log_dir " + directory.string() + " is not a directory",
                        "remove it or name another one");
        }
        io::throw_errno(failed.value(), "create directory", directory);
    }
    const fs::path path = directory / name_of(rank);
    fd_ = ::open(path.c_str(),
                 O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
                 kMode);
    struct stat status {};
    if (fd_ >= 0 ? ::fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)
                 : errno == ELOOP || errno == ENXIO || errno == EISDIR) {
        (void)::close(fd_);
        throw Error(ErrorCode::target, path.string() + " is not a regular file",
                    "remove it or name another --log_dir");
    }
    if (fd_ < 0) {
        io::throw_errno(errno, "open", path);
    }
}

RankLog::~RankLog() {
    (void)::close(fd_);
}

void RankLog::write(std::string_view text) {
    const std::string line = time_text().append(text).append("\n");
    const std::lock_guard lock(mutex_);
    std::size_t done = 0;
    while (done < line.size()) {
        const ssize_t put = ::write(fd_, line.data() + done, line.size() - done);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put <= 0) {
            return;
        }
        done += static_cast<std::size_t>(put);
    }
}

}  // namespace shardweld::app
