#include "app/survey/in_turns.hpp"

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/error_text.hpp"

namespace shardweld::app {
namespace {

TEST(InTurns, does_all_of_it_once) {
    for (const std::size_t n_threads : {1U, 2U, 8U}) {
        std::vector<int> done(1000, 0);
        in_turns(done.size(), n_threads, [&](std::size_t at, bool) { ++done[at]; });
        EXPECT_EQ(done, std::vector<int>(1000, 1));
    }
    in_turns(0, 8, [](std::size_t, bool) { FAIL(); });
}

TEST(InTurns, take_as_many_threads_as_are_asked_for) {
    // Each waits for the others: fewer threads would give up.
    std::atomic<int> n_met = 0;
    in_turns(5, 5, [&](std::size_t, bool) {
        ++n_met;
        for (int i = 0; n_met < 5 && i < 2000; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }
    });
    EXPECT_EQ(n_met, 5);
    in_turns(100, 1, [](std::size_t, bool is_callers) { EXPECT_TRUE(is_callers); });
}

TEST(InTurns, say_which_thread_is_the_callers) {
    const auto caller = std::this_thread::get_id();
    in_turns(1000, 8, [&](std::size_t, bool is_callers) {
        EXPECT_EQ(is_callers, std::this_thread::get_id() == caller);
    });
}

TEST(InTurns, fail_with_the_first_in_every_run) {
    for (int i = 0; i < 200; ++i) {
        for (const std::size_t n_threads : {1U, 2U, 8U}) {
            EXPECT_EQ(test::error_text([&] {
                          in_turns(100, n_threads, [](std::size_t at, bool) {
                              if (at == 70 || at == 71 || at > 90) {
                                  throw Error(ErrorCode::corrupt, "file " + std::to_string(at));
                              }
                          });
                      }),
                      "corrupt: file 70");
        }
    }
}

}  // namespace
}  // namespace shardweld::app
