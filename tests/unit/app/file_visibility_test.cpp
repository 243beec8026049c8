#include "app/survey/file_visibility.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

/// So many nodes of four ranks each, that all see all of so many files.
HostGroups nodes_of_four(int n_nodes) {
    HostGroups hosts;
    for (int node = 0; node < n_nodes; ++node) {
        hosts.leaders.push_back(4 * node);
        hosts.group_of_rank.insert(hosts.group_of_rank.end(), 4, static_cast<std::uint32_t>(node));
    }
    return hosts;
}

std::vector<std::size_t> files_by_rank(const std::vector<int>& readers, std::size_t n_ranks) {
    std::vector<std::size_t> files(n_ranks, 0);
    for (const int rank : readers) {
        ++files[static_cast<std::size_t>(rank)];
    }
    return files;
}

TEST(RanksFor, have_as_many_files_each) {
    const auto readers =
        ranks_for_all(SizesByGroup(3, std::vector<Index>(1000, 7)), nodes_of_four(3));
    const auto files = files_by_rank(readers, 12);
    EXPECT_EQ(*std::ranges::min_element(files), 83U);
    EXPECT_EQ(*std::ranges::max_element(files), 84U);
}

TEST(RanksFor, few_files_are_of_different_nodes) {
    const auto readers = ranks_for_all(SizesByGroup(8, std::vector<Index>(8, 7)), nodes_of_four(8));
    EXPECT_EQ(std::set<int>(readers.begin(), readers.end()),
              (std::set<int>{0, 4, 8, 12, 16, 20, 24, 28}));
}

TEST(RanksFor, a_file_is_for_ranks_that_see_it) {
    SizesByGroup sizes(3, std::vector<Index>(90, -1));
    for (std::size_t file = 0; file < 90; ++file) {
        sizes[file % 2 == 0 ? 0 : 2][file] = 7;
    }
    const auto readers = ranks_for_all(sizes, nodes_of_four(3));
    for (std::size_t file = 0; file < 90; ++file) {
        EXPECT_EQ(readers[file] / 4, file % 2 == 0 ? 0 : 2) << file;
    }
    const std::vector<std::uint32_t> some = {1, 3, 88};
    const auto chosen = ranks_for(some, sizes, nodes_of_four(3));
    EXPECT_EQ(chosen[0] / 4, 2);
    EXPECT_EQ(chosen[1] / 4, 2);
    EXPECT_EQ(chosen[2] / 4, 0);
}

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
