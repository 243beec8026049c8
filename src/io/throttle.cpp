#include "shardweld/io/throttle.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "shardweld/core/usage.hpp"

namespace shardweld::io {

namespace {

// Of time that went by without bytes (an exchange, a conversion): so much is made up for.
constexpr double kMostArrears = 1;

}  // namespace

Throttle::Throttle(double bytes_per_s) : bytes_per_s_(bytes_per_s), due_s_(wall_seconds()) {}

void Throttle::take(Bytes bytes) {
    double due = 0;
    {
        const std::lock_guard lock(mutex_);
        due_s_ = std::max(due_s_, wall_seconds() - kMostArrears) +
                 static_cast<double>(bytes) / bytes_per_s_;
        due = due_s_;
    }
    // Not before `due`, whatever wakes the thread.
    for (double left = due - wall_seconds(); left > 0; left = due - wall_seconds()) {
        std::this_thread::sleep_for(std::chrono::duration<double>(left));
    }
}

}  // namespace shardweld::io
