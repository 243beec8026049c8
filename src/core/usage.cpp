#include "shardweld/core/usage.hpp"

#include <chrono>
#include <ctime>
#include <fstream>
#include <string>

#include <sys/resource.h>

namespace shardweld {

Bytes resident_bytes() {
    std::ifstream status("/proc/self/status");
    std::string word;
    Bytes total = 0;
    while (status >> word) {
        if (word == "RssAnon:" || word == "RssShmem:") {
            Bytes kibibytes = 0;
            status >> kibibytes;
            total += kibibytes * 1024;
        }
    }
    return total;
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

}  // namespace shardweld
