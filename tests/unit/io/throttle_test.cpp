#include "io/throttle.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include <gtest/gtest.h>

#include "core/process/system.hpp"

namespace shardweld::io {
namespace {

TEST(Throttle, bytes_take_their_time) {
    const double begin = wall_seconds();
    Throttle throttle(1e6);
    for (int i = 0; i < 10; ++i) {
        throttle.wait_for(20'000);
    }
    EXPECT_GE(wall_seconds() - begin, 0.2);
}

TEST(Throttle, threads_share_the_speed) {
    const double begin = wall_seconds();
    Throttle throttle(1e6);
    std::thread other([&] { throttle.wait_for(100'000); });
    throttle.wait_for(100'000);
    other.join();
    EXPECT_GE(wall_seconds() - begin, 0.2);
}

TEST(Throttle, makes_up_for_a_second_at_most) {
    Throttle throttle(1e6);
    std::this_thread::sleep_for(std::chrono::milliseconds(1200));
    const double begin = wall_seconds();
    throttle.wait_for(1'100'000);
    EXPECT_GE(wall_seconds() - begin, 0.1);
}

TEST(Throttle, a_request_to_stop_ends_the_waiting) {
    std::atomic<bool> is_stopping = false;
    Throttle throttle(1, [&] { return is_stopping.load(); });
    std::thread waiting([&] { throttle.wait_for(1'000'000); });  // eleven days
    is_stopping = true;
    waiting.join();
    throttle.wait_for(1'000'000);
}

}  // namespace
}  // namespace shardweld::io
