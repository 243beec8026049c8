#include "input_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shardweld/error.hpp"

#include "directory.hpp"
#include "errno.hpp"
#include "openings.hpp"

namespace shardweld::io {

namespace {

// Linux transfers at most this much in one call (read(2)).
constexpr std::size_t kMaxRead = 0x7ffff000;

// Calls of the whole process. NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<std::uint64_t> n_read_calls{0};

std::string kind_of(mode_t mode) {
    if (S_ISDIR(mode)) {
        return "a directory";
    }
    if (S_ISFIFO(mode)) {
        return "a FIFO";
    }
    if (S_ISSOCK(mode)) {
        return "a socket";
    }
    return "a device";
}

[[noreturn]] void throw_not_regular(const fs::path& path, const std::string& kind) {
    throw Error(ErrorCode::unsupported,
                path.string() + " is " + kind + "; expected a regular file");
}

FileStamp stamp_behind(int fd, const fs::path& path) {
    struct stat status {};
    if (::fstat(fd, &status) != 0) {
        throw_errno(errno, "examine", path);
    }
    if (!S_ISREG(status.st_mode)) {
        throw_not_regular(path, kind_of(status.st_mode));
    }
    return io::stamp_of(status, fd);
}

}  // namespace

std::uint64_t read_calls() {
    return n_read_calls.load(std::memory_order_relaxed);
}

InputFile InputFile::opened(int directory, const fs::path& name, const fs::path& path, int flags) {
    const int fd = retried([&] {
        return ::openat(directory, name.c_str(),
                        O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags);
    });
    if (fd < 0) {
        if (errno == ENXIO || errno == ENODEV) {
            throw_not_regular(path, "a socket or an absent device");
        }
        throw_errno(errno, "open", path);
    }
    return adopt(fd, path);
}

InputFile InputFile::adopt(int fd, const fs::path& path) {
    InputFile file;
    file.path_ = path;
    file.fd_ = Descriptor(fd);
    file.stamp_ = stamp_behind(fd, path);
    return file;
}

InputFile InputFile::open(const fs::path& path) {
    InputFile file = opened(AT_FDCWD, path, path, 0);
    Openings::record_opening(path, file.stamp());
    return file;
}

InputFile InputFile::open(const Directory& directory, const fs::path& name) {
    return opened(directory.fd(), name, directory.path() / name, O_NOFOLLOW);
}

void InputFile::read_at(Bytes offset, ByteSpan out) const {
    if (out.empty()) {
        return;
    }
    const auto throw_short = [&](std::size_t got) {
        require_unchanged();
        throw Error(ErrorCode::corrupt,
                    path_.string() + " ends too early: expected " + std::to_string(out.size()) +
                        " bytes at offset " + std::to_string(offset) + ", found " +
                        std::to_string(got) + " (file size " + std::to_string(size()) + ")");
    };
    constexpr auto kMaxOffset = static_cast<Bytes>(std::numeric_limits<off_t>::max());
    if (offset > kMaxOffset || out.size() > kMaxOffset - offset) {
        throw_short(0);
    }
    std::size_t done = 0;
    while (done < out.size()) {
        const std::size_t wanted = std::min(out.size() - done, kMaxRead);
        n_read_calls.fetch_add(1, std::memory_order_relaxed);
        const ssize_t got = retried([&] {
            return ::pread(fd(), out.data() + done, wanted, static_cast<off_t>(offset + done));
        });
        if (got < 0) {
            throw_errno(errno,
                        "read " + std::to_string(wanted) + " bytes at offset " +
                            std::to_string(offset + done) + " of",
                        path_);
        }
        if (got == 0) {
            throw_short(done);
        }
        done += as_size(got);
    }
}

void InputFile::require_unchanged() const {
    require(stamp_);
}

void InputFile::require(const FileStamp& expected) const {
    const FileStamp now = stamp_behind(fd(), path_);
    if (now == expected) {
        return;
    }
    throw Error(
        ErrorCode::io,
        path_.string() + " was changed while it was being read (" +
            (now.size == expected.size ? difference_of(expected, now)
                                       : std::to_string(now.size) + " bytes, " +
                                             std::to_string(expected.size) + " at the start") +
            ")",
        "wait for its writer to end, and start again");
}

double InputFile::cached_share() const {
    constexpr Bytes kSamples = 64;
    const auto page = static_cast<Bytes>(::sysconf(_SC_PAGESIZE));
    void* const mapped =
        size() == 0 ? MAP_FAILED : ::mmap(nullptr, size(), PROT_READ, MAP_SHARED, fd(), 0);
    if (mapped == MAP_FAILED) {
        return 1;
    }
    // The mapping is asked about, never read: it cannot fault.
    const Bytes n_pages = (size() + page - 1) / page;
    const Bytes n_samples = std::min(n_pages, kSamples);
    Bytes n_cached = 0;
    for (Bytes i = 0; i < n_samples; ++i) {
        unsigned char is_cached = 1;
        const Bytes at = n_pages * i / n_samples * page;
        (void)::mincore(static_cast<std::byte*>(mapped) + at, page, &is_cached);
        n_cached += is_cached & 1U;
    }
    (void)::munmap(mapped, size());
    return static_cast<double>(n_cached) / static_cast<double>(n_samples);
}

void InputFile::will_need(Bytes offset, Bytes size) const {
    (void)::posix_fadvise(fd(), static_cast<off_t>(offset), static_cast<off_t>(size),
                          POSIX_FADV_WILLNEED);
}

void InputFile::forget(Bytes offset, Bytes size) const {
    (void)::posix_fadvise(fd(), static_cast<off_t>(offset), static_cast<off_t>(size),
                          POSIX_FADV_DONTNEED);
}

Bytes InputFile::next_hole(Bytes offset) const {
    const off_t at = ::lseek(fd(), static_cast<off_t>(offset), SEEK_HOLE);
    return at < 0 ? size() : static_cast<Bytes>(at);
}

Bytes InputFile::next_data(Bytes offset) const {
    const off_t at = ::lseek(fd(), static_cast<off_t>(offset), SEEK_DATA);
    return at < 0 ? size() : static_cast<Bytes>(at);
}

}  // namespace shardweld::io
