// The system calls that the program under test meets faults in, in the place of libc's.
// Knows judge(); nothing of what is to go wrong.
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <new>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "injector.hpp"

using shardweld::faults::Call;
using shardweld::faults::judge;
using shardweld::faults::judge_allocation;
using shardweld::faults::Verdict;

namespace {

/// libc's own function of that name and type.
template <typename F>
F* real(const char* name) {
    return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

/// Half of a transfer, at least a byte.
std::size_t share(const Verdict& verdict, std::size_t size) {
    return verdict.is_shorter && size > 1 ? size / 2 : size;
}

// Smaller ones fail only when nothing at all is left.
constexpr std::size_t kLargeAllocation = std::size_t{16} << 10U;

}  // namespace

// What a function does when no fault strikes; -1 with errno set when one does.
#define REAL(result, name, ...)                            \
    static auto* const next = real<decltype(name)>(#name); \
    const Verdict verdict = judge(__VA_ARGS__);            \
    if (verdict.error != 0) {                              \
        return result;                                     \
    }

#pragma GCC visibility push(default)

extern "C" {

// Modes follow only where a file may be made.
#define MODE_OF(flags)                            \
    mode_t mode = 0;                              \
    if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
        va_list rest;                             \
        va_start(rest, flags);                    \
        mode = va_arg(rest, mode_t);              \
        va_end(rest);                             \
    }

int open(const char* path, int flags, ...) {
    MODE_OF(flags)
    REAL(-1, open, Call::open, AT_FDCWD, path, flags)
    return next(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
    MODE_OF(flags)
    REAL(-1, open64, Call::open, AT_FDCWD, path, flags)
    return next(path, flags, mode);
}

int openat(int directory, const char* path, int flags, ...) {
    MODE_OF(flags)
    REAL(-1, openat, Call::open, directory, path, flags)
    return next(directory, path, flags, mode);
}

int openat64(int directory, const char* path, int flags, ...) {
    MODE_OF(flags)
    REAL(-1, openat64, Call::open, directory, path, flags)
    return next(directory, path, flags, mode);
}

/// openat2(2) has no function of its own: as on kernels that lack it, files are found by openat().
long syscall(long number, ...) {
    if (number == SYS_openat2) {
        errno = ENOSYS;
        return -1;
    }
    static auto* const next = real<decltype(syscall)>("syscall");
    std::array<long, 6> given{};
    va_list rest;
    va_start(rest, number);
    for (long& one : given) {
        one = va_arg(rest, long);
    }
    va_end(rest);
    return next(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

ssize_t read(int fd, void* out, size_t size) {
    REAL(-1, read, Call::read, fd)
    return next(fd, out, share(verdict, size));
}

ssize_t pread(int fd, void* out, size_t size, off_t offset) {
    REAL(-1, pread, Call::read, fd)
    return next(fd, out, share(verdict, size), offset);
}

ssize_t pread64(int fd, void* out, size_t size, off64_t offset) {
    REAL(-1, pread64, Call::read, fd)
    return next(fd, out, share(verdict, size), offset);
}

ssize_t write(int fd, const void* data, size_t size) {
    REAL(-1, write, Call::write, fd)
    return next(fd, data, share(verdict, size));
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
    REAL(-1, pwrite, Call::write, fd)
    return next(fd, data, share(verdict, size), offset);
}

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
    REAL(-1, pwrite64, Call::write, fd)
    return next(fd, data, share(verdict, size), offset);
}

int fsync(int fd) {
    REAL(-1, fsync, Call::fsync, fd)
    return next(fd);
}

int fdatasync(int fd) {
    REAL(-1, fdatasync, Call::fsync, fd)
    return next(fd);
}

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned int flags) {
    // To start writing is a wish; what becomes of it is told to who waits for it.
    REAL(-1, sync_file_range, flags == SYNC_FILE_RANGE_WRITE ? Call::hint : Call::writeback, fd)
    return next(fd, offset, size, flags);
}

int fallocate(int fd, int mode, off_t offset, off_t size) {
    REAL(-1, fallocate, Call::reserve, fd)
    return next(fd, mode, offset, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t size) {
    REAL(-1, fallocate64, Call::reserve, fd)
    return next(fd, mode, offset, size);
}

int ftruncate(int fd, off_t size) noexcept {
    REAL(-1, ftruncate, Call::resize, fd)
    return next(fd, size);
}

int ftruncate64(int fd, off64_t size) noexcept {
    REAL(-1, ftruncate64, Call::resize, fd)
    return next(fd, size);
}

int rename(const char* from, const char* to) noexcept {
    REAL(-1, rename, Call::rename, AT_FDCWD, to)
    return next(from, to);
}

int renameat(int from_at, const char* from, int to_at, const char* to) noexcept {
    REAL(-1, renameat, Call::rename, to_at, to)
    return next(from_at, from, to_at, to);
}

int renameat2(int from_at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
    REAL(-1, renameat2, Call::rename, to_at, to)
    return next(from_at, from, to_at, to, flags);
}

int mkdir(const char* path, mode_t mode) noexcept {
    REAL(-1, mkdir, Call::mkdir, AT_FDCWD, path)
    return next(path, mode);
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
    REAL(-1, mkdirat, Call::mkdir, directory, path)
    return next(directory, path, mode);
}

int unlink(const char* path) noexcept {
    REAL(-1, unlink, Call::unlink, AT_FDCWD, path)
    return next(path);
}

int unlinkat(int directory, const char* path, int flags) noexcept {
    REAL(-1, unlinkat, Call::unlink, directory, path)
    return next(directory, path, flags);
}

int remove(const char* path) noexcept {
    REAL(-1, remove, Call::unlink, AT_FDCWD, path)
    return next(path);
}

int rmdir(const char* path) noexcept {
    REAL(-1, rmdir, Call::unlink, AT_FDCWD, path)
    return next(path);
}

int flock(int fd, int operation) noexcept {
    REAL(-1, flock, Call::lock, fd)
    return next(fd, operation);
}

int close(int fd) {
    static auto* const next = real<decltype(close)>("close");
    // What was only read loses nothing.
    if (const int flags = ::fcntl(fd, F_GETFL); flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) {
        return next(fd);
    }
    // The descriptor is gone whatever close(2) answers.
    const Verdict verdict = judge(Call::close, fd);
    const int closed = next(fd);
    if (verdict.error != 0) {
        errno = verdict.error;
        return -1;
    }
    return closed;
}

int stat(const char* path, struct stat* out) noexcept {
    static auto* const next = real<int(const char*, struct stat*)>("stat");
    return judge(Call::stat, AT_FDCWD, path).error != 0 ? -1 : next(path, out);
}

int lstat(const char* path, struct stat* out) noexcept {
    static auto* const next = real<int(const char*, struct stat*)>("lstat");
    return judge(Call::stat, AT_FDCWD, path).error != 0 ? -1 : next(path, out);
}

int fstat(int fd, struct stat* out) noexcept {
    static auto* const next = real<int(int, struct stat*)>("fstat");
    return judge(Call::stat, fd).error != 0 ? -1 : next(fd, out);
}

int fstatat(int directory, const char* path, struct stat* out, int flags) noexcept {
    static auto* const next = real<int(int, const char*, struct stat*, int)>("fstatat");
    return judge(Call::stat, directory, path).error != 0 ? -1 : next(directory, path, out, flags);
}

int statx(int directory, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
    static auto* const next = real<int(int, const char*, int, unsigned, struct statx*)>("statx");
    return judge(Call::stat, directory, path).error != 0 ? -1
                                                         : next(directory, path, flags, mask, out);
}

DIR* opendir(const char* path) {
    REAL(nullptr, opendir, Call::list, AT_FDCWD, path)
    return next(path);
}

struct dirent* readdir(DIR* directory) {
    REAL(nullptr, readdir, Call::list, ::dirfd(directory))
    return next(directory);
}

struct dirent64* readdir64(DIR* directory) {
    REAL(nullptr, readdir64, Call::list, ::dirfd(directory))
    return next(directory);
}

}  // extern "C"

// Every allocation of C++ code ends here; C libraries' own do not.
void* operator new(std::size_t size) {
    if (size >= kLargeAllocation && judge_allocation().error != 0) {
        throw std::bad_alloc();
    }
    void* const memory = std::malloc(size == 0 ? 1 : size);
    if (memory == nullptr) {
        throw std::bad_alloc();
    }
    return memory;
}

void operator delete(void* memory) noexcept {
    std::free(memory);
}

void operator delete(void* memory, std::size_t /*size*/) noexcept {
    std::free(memory);
}

#pragma GCC visibility pop
