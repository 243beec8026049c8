#include "app/survey/file_visibility.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace shardweld::app
