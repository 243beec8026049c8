// A system on which ranks of a node have no memory in common (LD_PRELOAD): APART=planner, it cannot
// be made; APART=1, rank 1 does not find it, as in a container of its own.
#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <cstring>

#include <dlfcn.h>
#include <fcntl.h>

namespace {

bool is_apart(const char* who) {
    const char* const apart = std::getenv("APART");
    return apart != nullptr && who != nullptr && std::strcmp(apart, who) == 0;
}

}  // namespace

#pragma GCC visibility push(default)

extern "C" {

int memfd_create(const char* name, unsigned flags) {
    if (is_apart("planner")) {
        errno = ENOSYS;
        return -1;
    }
    static auto* const next =
        reinterpret_cast<int (*)(const char*, unsigned)>(::dlsym(RTLD_NEXT, "memfd_create"));
    return next(name, flags);
}

int open(const char* path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    if (std::strncmp(path, "/proc/", 6) == 0 && std::strstr(path, "/fd/") != nullptr &&
        is_apart(std::getenv("PMIX_RANK"))) {
        errno = ENOENT;
        return -1;
    }
    static auto* const next =
        reinterpret_cast<int (*)(const char*, int, ...)>(::dlsym(RTLD_NEXT, "open"));
    return next(path, flags, mode);
}

}  // extern "C"

#pragma GCC visibility pop
