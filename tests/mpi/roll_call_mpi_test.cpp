// Who is named when ranks do not answer.
#include <arpa/inet.h>
#include <netinet/in.h>

#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "app/runtime/roll_call.hpp"
#include "core/process/system.hpp"

#include "world.hpp"

namespace shardweld::app {
namespace {

using mpi::world;

/// Answers for so long.
void answer_for(RollCall& call, double seconds, const RankState& own) {
    for (const double end = wall_seconds() + seconds; wall_seconds() < end;) {
        (void)call.answer(own);
        ::usleep(10'000);
    }
}

/// What the first rank is told while the others answer, but for the last where it is mute.
std::string told_first(bool is_last_mute, bool is_waiting) {
    const auto call = RollCall::among(world());
    std::string told;
    world().barrier();
    const bool is_mute = is_last_mute && world().rank() == world().size() - 1;
    if (world().rank() == 0) {
        call->ask({7, true, "asking"}, -1);
        told = call->told(7);
    } else if (!is_mute) {
        answer_for(*call, kAskSeconds + 0.5, {3, is_waiting, "reading"});
    }
    world().barrier();
    return told;
}

TEST(RollCall, is_none_of_one_rank) {
    if (world().size() == 1) {
        EXPECT_EQ(RollCall::among(world()), nullptr);
    }
}

TEST(RollCall, names_a_rank_that_does_not_answer) {
    if (world().size() == 1) {
        GTEST_SKIP() << "nobody to ask";
    }
    const std::string told = told_first(true, true);
    if (world().rank() == 0) {
        const std::string name =
            "rank " + std::to_string(world().size() - 1) + " (" + world().host() + ")";
        EXPECT_NE(told.find("no answer (UDP) from " + name), std::string::npos) << told;
        EXPECT_NE(told.find("7 s ago"), std::string::npos) << told;
        EXPECT_EQ(told.find("; "), std::string::npos) << told;
    }
}

TEST(RollCall, tells_who_waits_for_nobody) {
    if (world().size() == 1) {
        GTEST_SKIP() << "nobody to ask";
    }
    const std::string busy = told_first(false, false);
    const std::string waiting = told_first(false, true);
    if (world().rank() == 0) {
        EXPECT_EQ(busy.find("no answer"), std::string::npos) << busy;
        EXPECT_NE(busy.find("(reading) since"), std::string::npos) << busy;
        EXPECT_NE(busy.find("3 s ago"), std::string::npos) << busy;
        EXPECT_EQ(waiting.find("no answer"), std::string::npos) << waiting;
        EXPECT_EQ(waiting.find("reading"), std::string::npos) << waiting;
    }
}

// Whoever is no rank of this run is not answered, and his datagrams change nothing.
TEST(RollCall, passes_over_what_is_not_its_own) {
    if (world().size() == 1) {
        GTEST_SKIP() << "nobody to ask";
    }
    const auto call = RollCall::among(world());
    sockaddr_in own{};
    socklen_t length = sizeof own;
    ASSERT_EQ(::getsockname(call->fd(), reinterpret_cast<sockaddr*>(&own), &length), 0);
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int stranger = ::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    const std::string zeros(4096, '\0');
    for (const std::size_t bytes : {0UL, 1UL, 112UL, 113UL, 120UL, 128UL, 4096UL}) {
        (void)::sendto(stranger, zeros.data(), bytes, 0, reinterpret_cast<const sockaddr*>(&own),
                       sizeof own);
    }
    ::usleep(100'000);
    EXPECT_FALSE(call->answer({1, true, "waiting"}));
    char reply = 0;
    EXPECT_LT(::recv(stranger, &reply, 1, 0), 0);
    ::close(stranger);
    world().barrier();
}

}  // namespace
}  // namespace shardweld::app
