#include "wake.hpp"

#include <algorithm>
#include <array>

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "core/system.hpp"

namespace shardweld::app::watching {

namespace {

constexpr double kSlice_s = 0.1;
constexpr std::uint32_t kChanges =
    IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_CLOSE_WRITE | IN_ONLYDIR;

}  // namespace

Wake::Wake() : fd_(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC)) {}

Wake::~Wake() {
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

void Wake::follow(const fs::path& directory) const {
    // One that was made again under the same name is another directory: it is asked for each time.
    if (fd_ >= 0) {
        (void)::inotify_add_watch(fd_, directory.c_str(), kChanges);
    }
}

/// Whether there was something to read.
bool Wake::drain() const {
    std::array<char, 4096> events{};
    bool is_told = false;
    while (fd_ >= 0 && ::read(fd_, events.data(), events.size()) > 0) {
        is_told = true;
    }
    return is_told;
}

void Wake::wait(double least_s, double most_s, const std::function<bool()>& is_over) {
    const double begin = wall_seconds();
    bool is_told = false;
    for (double waited = 0; waited < most_s && !is_over(); waited = wall_seconds() - begin) {
        if (is_told && waited >= least_s) {
            return;
        }
        pollfd told{fd_, POLLIN, 0};
        const bool asks = fd_ >= 0 && !is_told;
        (void)::poll(&told, asks ? 1 : 0,
                     static_cast<int>(1000 * std::min(kSlice_s, most_s - waited)) + 1);
        is_told = drain() || is_told;
    }
}

}  // namespace shardweld::app::watching
