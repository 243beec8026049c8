// The kernel is asked for what coming rounds read, and for nothing else.
#include "execute/prefetch.hpp"

#include <chrono>
#include <fstream>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"
#include "support/flat_target.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

using test::TemporaryDirectory;

constexpr Index kTensor = 64 * kMiB;

/// One tensor of 64 MiB, all of a file that is on the disk, and not in memory where the file system
/// can do without.
struct ColdTensor {
    explicit ColdTensor(bool has_spare_core = true)
        : the_plan(plan::make_plan({test::flat_target("a", DType::u8, kTensor)}, files,
                                   plan::Visibility::everywhere(1, 1), choice(has_spare_core))) {
        std::ofstream(path()) << std::string(static_cast<std::size_t>(kTensor), 'x');
        const io::InputFile file = io::InputFile::open(path());
        EXPECT_EQ(::fsync(file.fd()), 0);
        file.forget(0, file.size());
    }
    static plan::JobPlan choice(bool has_spare_core) {
        plan::JobPlan choice;
        choice.read_ahead = has_spare_core;
        return choice;
    }
    [[nodiscard]] fs::path path() const { return directory.path() / files.front().path; }

    TemporaryDirectory directory;
    std::vector<catalogue::File> files = {{"file", static_cast<Bytes>(kTensor)}};
    plan::Plan the_plan;
    SourceFiles source{directory.path(), &files};
    Reader reader{source, 0};
    Prefetch prefetch{the_plan, plan::Rounds(the_plan, 0), 0, reader};
};

TEST(Prefetch, gives_the_rounds_that_there_are) {
    ColdTensor cold;
    plan::Rounds expected(cold.the_plan, 0);
    std::vector<plan::OutputRange> ranges;
    std::vector<plan::OutputRange> same;
    Bytes at = 0;
    while (expected.next(same)) {
        ASSERT_TRUE(cold.prefetch.next(ranges));
        ASSERT_EQ(ranges.size(), 1U);
        EXPECT_EQ(ranges[0].begin, at);
        EXPECT_EQ(ranges[0].end, same[0].end);
        at = ranges[0].end;
    }
    EXPECT_EQ(at, static_cast<Bytes>(kTensor));
    EXPECT_FALSE(cold.prefetch.next(ranges));
    EXPECT_FALSE(cold.prefetch.next(ranges));
    EXPECT_EQ(cold.reader.bytes_read(), 0U);
}

TEST(Prefetch, brings_what_comes_next_into_memory_and_no_more) {
    ColdTensor cold;
    const io::InputFile file = io::InputFile::open(cold.path());
    if (file.cached_share() > 0) {
        GTEST_SKIP() << "files of this file system are always in memory";
    }
    std::vector<plan::OutputRange> ranges;
    ASSERT_TRUE(cold.prefetch.next(ranges));
    // 16 MiB of 64 behind the first round, which is left to its own read.
    for (int i = 0; i < 500 && file.cached_share() < 0.2; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    EXPECT_GE(file.cached_share(), 0.2);
    EXPECT_LE(file.cached_share(), 0.3);
}

TEST(Prefetch, asks_for_nothing_where_ranks_fill_the_cores) {
    ColdTensor cold(false);
    const io::InputFile file = io::InputFile::open(cold.path());
    if (file.cached_share() > 0) {
        GTEST_SKIP() << "files of this file system are always in memory";
    }
    std::vector<plan::OutputRange> ranges;
    while (cold.prefetch.next(ranges)) {
    }
    EXPECT_EQ(file.cached_share(), 0);
}

}  // namespace
}  // namespace shardweld::execute
