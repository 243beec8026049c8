#include <sstream>

#include <gtest/gtest.h>

#include "../../../src/app/cli/log.hpp"
#include "../../../src/app/cli/progress.hpp"

namespace shardweld::app {
namespace {

TEST(Log, writes_up_to_its_level_and_names_warnings_and_errors) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.debug("small");
    log.info("found 4 files");
    log.warning("odd");
    log.error("bad");
    EXPECT_EQ(out.str(),
              "shardweld: found 4 files\nshardweld: warning: odd\nshardweld: error: bad\n");
}

TEST(Log, is_mute_on_other_ranks) {
    std::ostringstream out;
    Log log(out, LogLevel::debug, false);
    log.error("bad");
    EXPECT_EQ(out.str(), "");
    EXPECT_FALSE(log.shows(LogLevel::error));
}

TEST(Log, prints_nothing_that_a_terminal_obeys) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    log.info(std::string_view("caf\xC3\xA9\x1b[31m\0\x7f\none more line", 26));
    EXPECT_EQ(out.str(), "shardweld: caf\xC3\xA9?[31m??\none more line\n");
}

TEST(Progress, writes_plain_lines_every_ten_seconds_and_at_the_end) {
    std::ostringstream out;
    double now = 100;
    Progress progress(out, ProgressStyle::lines, {8'000'000'000, 2'000'000'000},
                      [&] { return now; });
    now += 9.9;
    progress.update(400'000'000);
    EXPECT_EQ(out.str(), "");
    now += 0.1;
    progress.update(500'000'000);  // a quarter of the share
    EXPECT_EQ(out.str(), "shardweld: 2.00 GB of 8.00 GB, 25 %, 0.20 GB/s, 30s left\n");
    now += 5;
    progress.update(900'000'000);
    now += 65;
    progress.finish();
    EXPECT_EQ(out.str(),
              "shardweld: 2.00 GB of 8.00 GB, 25 %, 0.20 GB/s, 30s left\n"
              "shardweld: 8.00 GB of 8.00 GB, 100 %, 0.10 GB/s, 1m20s in all\n");
}

TEST(Progress, counts_finished_tensors) {
    std::ostringstream out;
    double now = 0;
    Progress progress(out, ProgressStyle::lines, {1000, 500, {0, 400, 400, 1000}},
                      [&] { return now; });
    now = 10;
    progress.update(199);
    now = 20;
    progress.update(200);
    progress.finish();
    EXPECT_EQ(out.str(),
              "shardweld: 398 B of 1.00 kB, 0 of 3 tensors, 39 %, 0.00 GB/s, 15s left\n"
              "shardweld: 400 B of 1.00 kB, 2 of 3 tensors, 40 %, 0.00 GB/s, 30s left\n"
              "shardweld: 1.00 kB of 1.00 kB, 3 of 3 tensors, 100 %, 0.00 GB/s, 20s in all\n");
}

TEST(Progress, draws_over_its_line_on_a_terminal) {
    std::ostringstream out;
    double now = 0;
    Progress progress(out, ProgressStyle::redrawn, {1000, 1000}, [&] { return now; });
    now = 4000;
    progress.update(1);
    now += 0.1;
    progress.update(500);  // too soon to draw again
    now = 4001;
    progress.finish();
    const std::string first = "\rshardweld: 1 B of 1.00 kB, 0 %, 0.00 GB/s, 1110h00m left";
    const std::string last = "\rshardweld: 1.00 kB of 1.00 kB, 100 %, 0.00 GB/s, 1h06m in all";
    EXPECT_EQ(out.str(), first + last + "\n");
}

TEST(Progress, says_nothing_when_silent_or_without_a_share) {
    std::ostringstream out;
    double now = 0;
    Progress silent(out, ProgressStyle::silent, {10, 10}, [&] { return now; });
    Progress idle(out, ProgressStyle::lines, {10, 0}, [&] { return now; });
    now = 60;
    silent.update(5);
    silent.finish();
    idle.update(0);
    EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace shardweld::app
