#include "system.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <malloc.h>
#include <string>
#include <system_error>

#include <sys/resource.h>
#include <unistd.h>

namespace shardweld {

namespace {

// Set as the program starts. NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
bool is_heeded = false;

}  // namespace

void read_environment() {
    is_heeded = true;
}

std::optional<std::string> variable(const std::string& name) {
    const char* value =
        is_heeded ? std::getenv(name.c_str()) : nullptr;  // NOLINT(concurrency-mt-unsafe)
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string boot_id() {
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    return boot;
}

namespace {

/// Lines of /proc/self/status (proc(5)), in bytes.
struct Resident {
    Bytes most = 0;  ///< of all kinds, since the start
    Bytes anonymous = 0;
    Bytes shared = 0;
    Bytes file = 0;
};

Resident resident() {
    std::ifstream status("/proc/self/status");
    Resident found;
    for (std::string word; status >> word;) {
        Bytes* const value = word == "VmHWM:"      ? &found.most
                             : word == "RssAnon:"  ? &found.anonymous
                             : word == "RssShmem:" ? &found.shared
                             : word == "RssFile:"  ? &found.file
                                                   : nullptr;
        if (value != nullptr) {
            status >> *value;
            *value *= 1024;
        }
    }
    return found;
}

}  // namespace

Bytes resident_bytes() {
    const Resident now = resident();
    return now.anonymous + now.shared;
}

Bytes peak_bytes() {
    static std::atomic<Bytes> most{0};
    const Resident now = resident();
    const Bytes seen =
        std::max(now.anonymous + now.shared, now.most - std::min(now.most, now.file));
    Bytes known = most.load();
    while (known < seen && !most.compare_exchange_weak(known, seen)) {
    }
    return std::max(known, seen);
}

void return_freed_memory() {
#ifdef __GLIBC__
    (void)malloc_trim(0);
#endif
}

double cpu_seconds() {
    rusage usage{};
    (void)getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double thread_cpu_seconds() {
    timespec time{};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double wall_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

std::string utc_now() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    (void)::gmtime_r(&now, &parts);
    std::array<char, 32> text{};
    (void)std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text.data();
}

ErrorCode code_of_errno(int error) {
    switch (error) {
        case ENOSPC:
        case EDQUOT:
        case EFBIG:
            return ErrorCode::space;
        case ENOMEM:
            return ErrorCode::memory;
        case ENOENT:
        case ENOTDIR:
            return ErrorCode::not_found;
        default:
            return ErrorCode::io;
    }
}

std::string text_of_errno(int error) {
    return std::generic_category().message(error) + " (errno " + std::to_string(error) + ")";
}

}  // namespace shardweld
