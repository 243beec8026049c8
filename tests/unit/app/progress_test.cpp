// How far a run is, as it is shown on terminals, in logs and to programs.
#include "app/messages/progress.hpp"

#include <sstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace shardweld::app {
namespace {

constexpr Index kGB = 1'000'000'000;

ProgressState moving(Index done, double elapsed) {
    return {"moving tensors", {8 * kGB, 2 * kGB}, done, elapsed};
}

/// What a log has got, with a clock that stands still between looks.
struct ShownProgress {
    std::ostringstream out;
    Log log{out, LogLevel::info, true};
    double now = 100;
    Progress progress;

    explicit ShownProgress(ProgressStyle style) : progress(log, style, [this] { return now; }) {}
};

TEST(ProgressLine, has_the_phase_its_share_bytes_rate_and_what_is_left) {
    EXPECT_EQ(progress_line(moving(2 * kGB, 10)),
              "moving tensors: 25 %, 30s left, 2.00 GB of 8.00 GB, 200 MB/s");
    EXPECT_EQ(progress_line(moving(kGB, 40)),
              "moving tensors: 12 %, 4m40s left, 1.00 GB of 8.00 GB, 25.0 MB/s");
    EXPECT_EQ(progress_line(moving(0, 0)), "moving tensors: 0 %, 0 B of 8.00 GB");
    EXPECT_EQ(progress_line({"reading metadata", {8, 2, "files"}, 8, 1}),
              "reading metadata: 100 %, 8 of 8 files");
    EXPECT_EQ(progress_line({"uploading", {}, 0, 1}), "uploading");
}

TEST(ProgressBar, fits_the_width) {
    const ProgressState state = moving(2 * kGB, 10);
    for (std::size_t width = 20; width < 200; ++width) {
        EXPECT_LE(progress_bar(state, width, false).size(), width);
    }
    EXPECT_EQ(progress_bar(state, 79, false),
              "moving tensors [###.........]  25 %     30s left  2.00 GB of 8.00 GB   200 MB/s");
    EXPECT_EQ(progress_bar(state, 50, false), "moving tensors [###...........]  25 %     30s left");
    EXPECT_EQ(progress_bar(state, 20, false), "moving tensors  25 %");
    EXPECT_EQ(progress_bar({"uploading", {}, 0, 1}, 79, false), "uploading...");
}

TEST(ProgressBar, keeps_its_place) {
    for (const std::size_t width : {79U, 99U, 160U}) {
        const std::size_t end = progress_bar(moving(0, 0), width, false).find(']');
        for (const auto& [done, elapsed] :
             {std::pair{kGB / 1000, 0.1}, {kGB, 4000.0}, {7 * kGB, 70.0}, {8 * kGB, 80.0}}) {
            EXPECT_EQ(progress_bar(moving(done, elapsed), width, false).find(']'), end);
        }
    }
}

TEST(ProgressBar, is_coloured_where_colours_are) {
    const std::string plain = progress_bar(moving(2 * kGB, 10), 79, false);
    std::string coloured = progress_bar(moving(2 * kGB, 10), 79, true);
    EXPECT_NE(coloured, plain);
    for (const char* code : {"\x1b[32m", "\x1b[0m"}) {
        coloured.erase(coloured.find(code), std::string(code).size());
    }
    EXPECT_EQ(coloured, plain);
}

TEST(Progress, writes_a_line_every_ten_seconds_or_ten_percent_whichever_is_rarer) {
    ShownProgress watched(ProgressStyle::lines);
    watched.progress.begin("moving tensors", {8 * kGB, 2 * kGB});
    watched.now += 9;
    watched.progress.update(kGB);  // half of it, too soon
    EXPECT_EQ(watched.out.str(), "");
    watched.now += 1;
    watched.progress.update(kGB);
    const std::string first = "moving tensors: 50 %, 10s left, 4.00 GB of 8.00 GB, 400 MB/s\n";
    EXPECT_EQ(watched.out.str(), first);
    watched.now += 100;
    watched.progress.update(kGB + kGB / 10);  // five percent more
    EXPECT_EQ(watched.out.str(), first);
    watched.progress.update(kGB + kGB / 5);
    EXPECT_NE(watched.out.str(), first);
    const std::string both = watched.out.str();
    watched.progress.end();
    EXPECT_EQ(watched.out.str(), both);
}

TEST(Progress, draws_one_line_over_itself_and_takes_it_away_for_messages) {
    ShownProgress watched(ProgressStyle::bar);
    watched.progress.begin("uploading");
    EXPECT_EQ(watched.out.str(), "\r\x1b[Kuploading...");
    watched.log.info("a message");
    EXPECT_EQ(watched.out.str(), "\r\x1b[Kuploading...\r\x1b[Ka message\n");
    watched.now += 1;
    watched.progress.tick();
    watched.progress.end();
    EXPECT_EQ(watched.out.str(),
              "\r\x1b[Kuploading...\r\x1b[Ka message\n\r\x1b[Kuploading...\r\x1b[K");
}

TEST(Progress, begins_with_the_first_that_is_told_of_work) {
    ShownProgress watched(ProgressStyle::bar);
    const auto show = shown(watched.progress, "hashing files");
    EXPECT_EQ(watched.out.str(), "");
    show(0, 2 * kGB, 8 * kGB);
    EXPECT_NE(watched.out.str().find("hashing files"), std::string::npos);
    watched.now += 1;
    show(kGB, 2 * kGB, 8 * kGB);
    EXPECT_NE(watched.out.str().find(" 50 %"), std::string::npos);
}

TEST(Progress, rates_what_this_run_does_alone) {
    ShownProgress watched(ProgressStyle::lines);
    const auto show = shown(watched.progress, "moving tensors");
    show(kGB, 2 * kGB, 8 * kGB);
    watched.now += 20;
    show(kGB + kGB / 2, 2 * kGB, 8 * kGB);
    EXPECT_EQ(watched.out.str(), "moving tensors: 75 %, 20s left, 6.00 GB of 8.00 GB, 100 MB/s\n");
}

TEST(Progress, tells_programs_in_objects) {
    ShownProgress watched(ProgressStyle::json);
    watched.progress.begin("moving tensors", {8 * kGB, 2 * kGB});
    watched.now += 0.5;
    watched.progress.update(kGB);  // not more than one a second
    watched.now += 1.5;
    watched.progress.update(kGB);
    watched.progress.end();
    std::istringstream lines(watched.out.str());
    std::vector<nlohmann::json> objects;
    for (std::string line; std::getline(lines, line);) {
        objects.push_back(nlohmann::json::parse(line));
    }
    ASSERT_EQ(objects.size(), 3U);
    EXPECT_EQ(objects[0]["event"], "progress");
    EXPECT_EQ(objects[0]["phase"], "moving tensors");
    EXPECT_EQ(objects[1]["done"], 4 * kGB);
    EXPECT_EQ(objects[1]["total"], 8 * kGB);
    EXPECT_EQ(objects[1]["unit"], "bytes");
    EXPECT_EQ(objects[1]["left_s"], 2);
    EXPECT_EQ(objects[2]["done"], 8 * kGB);
}

TEST(Progress, says_nothing_when_it_may_not) {
    ShownProgress watched(ProgressStyle::none);
    watched.progress.begin("moving tensors", {8, 2});
    watched.now += 60;
    watched.progress.update(1);
    watched.progress.end();
    EXPECT_EQ(watched.out.str(), "");
}

TEST(ProgressStyle, follows_the_reader) {
    std::ostringstream out;
    Log log(out, LogLevel::info, true);
    EXPECT_EQ(style_for(ProgressStyle::automatic, log, false), ProgressStyle::lines);
    EXPECT_EQ(style_for(ProgressStyle::automatic, log, true), ProgressStyle::none);
    EXPECT_EQ(style_for(ProgressStyle::bar, log, true), ProgressStyle::bar);
    log.attach(std::make_shared<const Terminal>(2));
    EXPECT_EQ(style_for(ProgressStyle::automatic, log, false), ProgressStyle::bar);
    const Log other(out, LogLevel::info, false);
    EXPECT_EQ(style_for(ProgressStyle::bar, other, false), ProgressStyle::none);
}

TEST(Terminal, knows_launchers_by_their_names) {
    EXPECT_TRUE(is_launcher("mpirun"));
    EXPECT_TRUE(is_launcher("prterun"));
    EXPECT_FALSE(is_launcher("bash"));
}

}  // namespace
}  // namespace shardweld::app
