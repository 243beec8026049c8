// How phases end in which ranks go their own way.
#include <string>

#include <gtest/gtest.h>

#include "mpi/free_run.hpp"

#include "world.hpp"

namespace shardweld::mpi {
namespace {

Error error_in(const std::function<void()>& phase) {
    try {
        phase();
    } catch (const Error& error) {
        return error;
    }
    return {ErrorCode::ok, "no error"};
}

TEST(RunFreely, lets_each_rank_take_as_many_steps_as_it_likes) {
    Index taken = 0;
    run_freely(world(), {}, [&](const OnStep& step) {
        for (int i = 0; i < 100 * world().rank(); ++i) {
            step();
            ++taken;
        }
    });
    EXPECT_EQ(taken, 100 * world().rank());
}

TEST(RunFreely, ends_for_all_at_the_error_of_one) {
    for (int failing = 0; failing < world().size(); ++failing) {
        const Error error = error_in([&] {
            run_freely(world(), {}, [&](const OnStep& step) {
                if (world().rank() == failing) {
                    throw Error(ErrorCode::corrupt, "bad bytes");
                }
                // Only the other rank's error ends this.
                while (true) {
                    step();
                }
            });
        });
        EXPECT_EQ(error.code(), ErrorCode::corrupt) << failing;
        EXPECT_NE(error.full_text().find("bad bytes"), std::string::npos);
    }
}

TEST(RunFreely, stops_for_all_when_one_has_a_reason) {
    for (int told = 0; told < world().size(); ++told) {
        const WhyStop why = [&] { return world().rank() == told ? "the end is near" : ""; };
        const Error error = error_in([&] {
            run_freely(world(), why, [&](const OnStep& step) {
                // Those that have nothing to do hear of it too, and may be the ones that are told.
                while (world().rank() % 2 == 0) {
                    step();
                }
            });
        });
        EXPECT_EQ(error.code(), ErrorCode::stopped) << told;
        EXPECT_NE(error.full_text().find("the end is near"), std::string::npos);
    }
}

TEST(CollectivelyInSteps, lets_every_rank_finish_and_tells_of_the_lowest_failing_one) {
    int steps = 0;
    const Error error = error_in([&] {
        collectively_in_steps(world(), [&](const OnStep& step) {
            for (; steps < 50 * (world().size() - world().rank()); ++steps) {
                step();
            }
            throw Error(ErrorCode::io, "rank " + std::to_string(world().rank()) + " failed");
        });
    });
    EXPECT_EQ(steps, 50 * (world().size() - world().rank()));
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_NE(error.full_text().find("rank 0 failed"), std::string::npos) << error.full_text();
}

}  // namespace
}  // namespace shardweld::mpi
