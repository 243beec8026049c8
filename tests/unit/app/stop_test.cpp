#include "app/runtime/stop.hpp"

#include <csignal>
#include <cstdio>
#include <ctime>

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

TEST(StopSignals, are_noted_while_they_are_watched) {
    const auto before = std::signal(SIGUSR1, SIG_IGN);
    {
        const StopSignals signals;
        EXPECT_EQ(StopSignals::seen(), "");
        std::raise(SIGUSR2);
        std::raise(SIGTERM);
        std::raise(SIGUSR2);
        EXPECT_EQ(StopSignals::seen(), "SIGUSR2");
    }
    EXPECT_EQ(std::signal(SIGUSR1, before), SIG_IGN) << "what was there before comes back";
    const StopSignals again;
    EXPECT_EQ(StopSignals::seen(), "");
}

TEST(StopSignals, are_answered_where_somebody_reads) {
    std::FILE* file = std::tmpfile();
    for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) {
        const StopSignals signals;
        const auto before = std::ftell(file);
        StopSignals::tell_on(::fileno(file));
        std::raise(signal);
        std::fseek(file, 0, SEEK_END);
        EXPECT_EQ(std::ftell(file) > before, signal != SIGUSR1) << signal;
    }
    std::fclose(file);
}

TEST(StopSignals, a_second_term_ends_the_process) {
    EXPECT_EXIT(
        {
            const StopSignals signals;
            std::raise(SIGTERM);
            std::raise(SIGTERM);
        },
        testing::KilledBySignal(SIGTERM), "");
}

TEST(StopTime, is_a_minute_before_the_end_or_less_of_a_short_job) {
    EXPECT_EQ(stop_time(10'000, 0, {}), 9'940);
    EXPECT_EQ(stop_time(300, 0, {}), 270);
    EXPECT_EQ(stop_time(300, 400, {}), 300);
    EXPECT_EQ(stop_time(300, 0, 120), 180);
}

TEST(ParseLocalTime, takes_what_squeue_prints) {
    std::tm time{};
    time.tm_year = 126;
    time.tm_mon = 10;
    time.tm_mday = 22;
    time.tm_hour = 3;
    time.tm_min = 10;
    time.tm_sec = 5;
    time.tm_isdst = -1;
    EXPECT_EQ(parse_local_time("2026-11-22T03:10:05"), static_cast<double>(std::mktime(&time)));
    for (const char* text : {"", "N/A", "NONE", "Unknown", "2026-11-22", "2026-11-22T03:10:05Z"}) {
        EXPECT_EQ(parse_local_time(text), std::nullopt) << text;
    }
}

}  // namespace
}  // namespace shardweld::app
