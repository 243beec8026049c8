#include "throttle.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/process/system.hpp"

namespace shardweld::io {

namespace {

// So many seconds that went by without bytes (an exchange, a conversion) are made up for.
constexpr double kMostArrears = 1;
// A request to stop is seen within this time: mpirun kills its ranks a second after it.
constexpr double kLongestSleep = 0.05;

}  // namespace

Throttle::Throttle(double bytes_per_s, std::function<bool()> is_stopping)
    : bytes_per_s_(bytes_per_s), due_s_(wall_seconds()), is_stopping_(std::move(is_stopping)) {}

void Throttle::wait_for(Bytes bytes) {
    double due = 0;
    {
        const std::lock_guard lock(mutex_);
        due_s_ = std::max(due_s_, wall_seconds() - kMostArrears) +
                 static_cast<double>(bytes) / bytes_per_s_;
        due = due_s_;
    }
    // Not before `due`, whatever wakes the thread.
    for (double left = due - wall_seconds(); left > 0 && !(is_stopping_ && is_stopping_());
         left = due - wall_seconds()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(std::min(left, kLongestSleep)));
    }
}

}  // namespace shardweld::io
