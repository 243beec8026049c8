#include <gtest/gtest.h>

#include "app/survey/file_visibility.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

constexpr FileStatus kHidden{};

TEST(Doubtful, is_empty_where_one_group_or_one_file_is_seen) {
    EXPECT_EQ(doubtful({}, 8), std::vector<std::size_t>{});
    EXPECT_EQ(doubtful({{{10, 1}, {20, 2}}}, 8), std::vector<std::size_t>{});
    EXPECT_EQ(doubtful({{{10, 1}, kHidden}, {{10, 1}, {20, 7}}, {kHidden, kHidden}}, 8),
              std::vector<std::size_t>{});
}

TEST(Doubtful, names_files_of_one_size_that_are_two) {
    EXPECT_EQ(doubtful({{{10, 1}, {20, 2}, {30, 3}}, {{10, 1}, {20, 5}, {30, 3}}}, 8),
              std::vector<std::size_t>{1});
    EXPECT_EQ(doubtful({{kHidden, {20, 2}}, {{10, 1}, {20, 2}}, {{10, 4}, {20, 3}}}, 8),
              (std::vector<std::size_t>{0, 1}));
}

TEST(Doubtful, leaves_other_sizes_to_the_check_of_sizes) {
    EXPECT_EQ(doubtful({{{10, 1}}, {{11, 2}}}, 8), std::vector<std::size_t>{});
}

TEST(Doubtful, spreads_what_it_takes_of_many_files) {
    FileStats stats(2);
    for (std::uint64_t file = 0; file < 100; ++file) {
        stats[0].push_back({10, file});
        stats[1].push_back({10, file + 1});
    }
    EXPECT_EQ(doubtful(stats, 4), (std::vector<std::size_t>{0, 25, 50, 75}));
}

TEST(LookAt, tells_files_of_one_name_apart) {
    const test::TemporaryDirectory here;
    const test::TemporaryDirectory there;
    here.put("x", "abc");
    there.put("x", "abc");
    const FileStatus first = look_at(here.path() / "x");
    EXPECT_EQ(first.size, 3);
    EXPECT_EQ(look_at(here.path() / "x").identity, first.identity);
    EXPECT_NE(look_at(there.path() / "x").identity, first.identity);
    EXPECT_EQ(look_at(here.path()).size, -1);
    EXPECT_EQ(look_at(here.path() / "y").size, -1);
}

}  // namespace
}  // namespace shardweld::app
