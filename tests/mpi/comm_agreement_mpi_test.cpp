// Errors and alarms that cross ranks.
#include <chrono>
#include <new>
#include <stdexcept>

#include <gtest/gtest.h>

#include "mpi/comm.hpp"

#include "world.hpp"

namespace shardweld::mpi {
namespace {

/// What `collectively` throws on this rank when `local` runs; code ok when nothing.
Error error_of(const std::function<void()>& local) {
    try {
        collectively(world(), local);
    } catch (const Error& error) {
        return error;
    }
    return {ErrorCode::ok, "no error"};
}

/// Where it happened, behind what the rank itself says.
std::vector<std::string> places_of(std::vector<std::string> places, int rank,
                                   const std::string& others = "") {
    if (world().size() > 1) {
        places.push_back("rank " + std::to_string(rank) + " (" + world().host() + ")" + others);
    }
    return places;
}

TEST(Collectively, runs_on_every_rank_when_nobody_fails) {
    int runs = 0;
    EXPECT_EQ(error_of([&] { ++runs; }).code(), ErrorCode::ok);
    EXPECT_EQ(world().all_sum(runs), world().size());
}

TEST(Collectively, returns_each_ranks_value) {
    EXPECT_EQ(collectively_get(world(), [] { return world().rank() * 10; }), world().rank() * 10);
}

TEST(Collectively, tells_all_ranks_of_each_ranks_failure) {
    for (int failing = 0; failing < world().size(); ++failing) {
        const Error error = error_of([&] {
            if (world().rank() == failing) {
                throw Error(ErrorCode::corrupt, "bad bytes", "copy it again")
                    .add_context("tensor x")
                    .set_detail("line 3");
            }
        });
        EXPECT_EQ(error.code(), ErrorCode::corrupt);
        EXPECT_STREQ(error.what(), "bad bytes");
        EXPECT_EQ(error.context(), places_of({"tensor x"}, failing));
        EXPECT_EQ(error.hint(), "copy it again");
        EXPECT_EQ(error.detail(), "line 3");
    }
}

TEST(Collectively, names_the_rank_once) {
    const Error error = error_of(
        [] { collectively(world(), [] { throw Error(ErrorCode::corrupt, "bad bytes"); }); });
    EXPECT_EQ(error.context().size(), world().size() > 1 ? 1U : 0U);
}

TEST(Collectively, reports_the_lowest_failing_rank_and_counts_the_others) {
    for (int first = 0; first < world().size(); ++first) {
        const Error error = error_of([&] {
            if (world().rank() >= first) {
                throw Error(world().rank() == first ? ErrorCode::io : ErrorCode::corrupt,
                            "failure " + std::to_string(world().rank()));
            }
        });
        const int others = world().size() - 1 - first;
        const std::string tail = others == 0 ? "" : " and " + std::to_string(others) + " more";
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_EQ(error.what(), "failure " + std::to_string(first));
        EXPECT_EQ(error.context(), places_of({}, first, tail));
    }
}

TEST(Collectively, names_exceptions_that_are_not_its_own) {
    const int last = world().size() - 1;
    const auto on_last = [&](auto thrown) {
        return error_of([&] {
            if (world().rank() == last) {
                throw thrown;
            }
        });
    };
    const Error memory = on_last(std::bad_alloc());
    EXPECT_EQ(memory.code(), ErrorCode::memory);
    EXPECT_STREQ(memory.what(), "memory ran out");
    const Error logic = on_last(std::logic_error("impossible"));
    EXPECT_EQ(logic.code(), ErrorCode::internal);
    EXPECT_STREQ(logic.what(), "unexpected error: impossible");
    const Error number = on_last(42);
    EXPECT_EQ(number.code(), ErrorCode::internal);
    EXPECT_STREQ(number.what(), "unexpected error of an unknown type");
}

TEST(Collectively, carries_long_texts_whole) {
    const std::string text(100'000, 'x');
    const Error error = error_of([&] { throw Error(ErrorCode::target, text); });
    EXPECT_EQ(error.code(), ErrorCode::target);
    EXPECT_EQ(error.what(), text);
}

bool alarm_arrives() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < end) {
        if (world().alarm()) {
            return true;
        }
    }
    return false;
}

TEST(Alarm, is_silent_when_nobody_raises_it) {
    EXPECT_FALSE(world().alarm());
    world().end_of_free_run();
    EXPECT_FALSE(world().alarm());
}

TEST(Alarm, reaches_every_rank_from_every_rank) {
    for (int raiser = 0; raiser < world().size(); ++raiser) {
        if (world().rank() == raiser) {
            world().raise_alarm();
        }
        EXPECT_TRUE(alarm_arrives()) << "raised by " << raiser;
        EXPECT_TRUE(world().alarm());
        world().end_of_free_run();
        EXPECT_FALSE(world().alarm());
        world().barrier();  // the next phase's alarm comes after this look
    }
}

TEST(Alarm, may_be_raised_by_all_and_twice) {
    for (int phase = 0; phase < 50; ++phase) {
        world().raise_alarm();
        world().raise_alarm();
        EXPECT_TRUE(world().alarm());
        world().end_of_free_run();
        EXPECT_FALSE(world().alarm());
        world().barrier();  // the next phase's alarm comes after this look
    }
}

TEST(Alarm, does_not_leak_into_the_next_phase) {
    // Raised at the last moment, seen by some ranks and not by others; fast ranks enter the next
    // phase while slow ones leave the last.
    for (int phase = 0; phase < 200; ++phase) {
        if (phase % 2 == 0 && phase / 2 % world().size() == world().rank()) {
            world().raise_alarm();
        }
        if (phase % 3 == world().rank() % 3) {
            EXPECT_TRUE(!world().alarm() || phase % 2 == 0);
        }
        world().end_of_free_run();
    }
    EXPECT_FALSE(world().alarm());
}

TEST(Alarm, does_not_disturb_other_traffic) {
    world().raise_alarm();
    EXPECT_EQ(world().all_sum(1), world().size());
    const auto bytes = pattern(1000, 5);
    EXPECT_EQ(world().broadcast(bytes, 0), bytes);
    world().end_of_free_run();
}

}  // namespace
}  // namespace shardweld::mpi
