#include <gtest/gtest.h>

#include "formats/megatron/grid.hpp"

namespace shardweld::formats::megatron {
namespace {

using catalogue::Claims;
using Ranks = std::vector<std::optional<Index>>;

/// The grid of `files`, as its args give it.
Grid grid_of(const std::vector<std::string>& files, const std::map<std::string, Index>& stated) {
    return place_files(files, stated);
}

const std::vector<std::string> kTp2Pp2 = {"mp_rank_00_000/a.pt", "mp_rank_00_001/a.pt",
                                          "mp_rank_01_000/a.pt", "mp_rank_01_001/a.pt"};

TEST(RankOrder, has_pipeline_ranks_outermost_by_default) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const auto places = places_by_rank(grid, {{"world_size", "8"}}, Ranks{0, 4, 1, 5});
    ASSERT_EQ(places.size(), 4U);
    for (std::size_t i = 0; i < places.size(); ++i) {
        EXPECT_EQ(places[i], place_in(grid, grid.places[i])) << i;
    }
    EXPECT_EQ(places[1], (Claims{{"pp", "1"}, {"tp", "0"}}));
}

TEST(RankOrder, may_have_data_parallel_ranks_outermost) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const Ranks ranks = {0, 2, 1, 3};
    const Claims world = {{"world_size", "8"}, {"use_tp_pp_dp_mapping", "true"}};
    EXPECT_EQ(places_by_rank(grid, world, ranks)[3], (Claims{{"pp", "1"}, {"tp", "1"}}));
    // Where args do not say, the order that fits; where they do, theirs.
    EXPECT_EQ(places_by_rank(grid, {{"world_size", "8"}}, ranks)[3],
              (Claims{{"pp", "1"}, {"tp", "1"}}));
    const Claims other = {{"world_size", "8"}, {"use_tp_pp_dp_mapping", "false"}};
    EXPECT_EQ(places_by_rank(grid, other, ranks)[3], (Claims{{"pp", "0"}, {"tp", "1"}}));
}

TEST(RankOrder, of_context_parallel_ranks_lies_between) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const Claims args = {
        {"world_size", "16"}, {"context_parallel_size", "2"}, {"use_tp_pp_dp_mapping", "true"}};
    EXPECT_EQ(places_by_rank(grid, args, Ranks{0, 4, 1, 5})[1], (Claims{{"pp", "1"}, {"tp", "0"}}));
}

TEST(RankOrder, counts_expert_ranks_in_a_grid_of_their_own) {
    const Grid grid =
        grid_of({"mp_rank_00_000/a.pt", "mp_rank_01_001/a.pt"}, {{"tp", 2}, {"ep", 2}, {"etp", 1}});
    EXPECT_EQ(places_by_rank(grid, {{"world_size", "2"}}, Ranks{0, 1})[1],
              (Claims{{"ep", "1"}, {"tp", "1"}}));
}

TEST(RankOrder, tells_nothing_of_ranks_that_are_alike_or_of_another_world) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    EXPECT_TRUE(places_by_rank(grid, {{"world_size", "4"}}, Ranks{0, 0, 0, 0}).empty());
    EXPECT_TRUE(places_by_rank(grid, {{"world_size", "4"}}, Ranks{0, 2, 1, 4}).empty());
    EXPECT_TRUE(places_by_rank(grid, {{"world_size", "6"}}, Ranks{0, 2, 1, 3}).empty());
    EXPECT_TRUE(places_by_rank(grid, {}, Ranks{0, 2, 1, 3}).empty());
    EXPECT_TRUE(places_by_rank(grid,
                               {{"world_size", "8"}, {"encoder_pipeline_model_parallel_size", "1"}},
                               Ranks{0, 2, 1, 3})
                    .empty());
}

TEST(RankOrder, of_exchanged_files_is_the_first_that_args_allow) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const auto places = places_by_rank(grid, {{"world_size", "4"}}, Ranks{1, 2, 0, 3});
    EXPECT_EQ(places[0], (Claims{{"pp", "0"}, {"tp", "1"}}));
}

}  // namespace
}  // namespace shardweld::formats::megatron
