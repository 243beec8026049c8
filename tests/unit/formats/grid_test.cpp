#include "formats/megatron/grid.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "scratch.hpp"

namespace shardweld::formats::megatron {
namespace {

using Sizes = std::map<std::string, Index>;

std::vector<std::string> files_of(const std::vector<std::string>& ranks) {
    std::vector<std::string> files;
    for (const std::string& rank : ranks) {
        files.push_back("mp_rank_" + rank + "/model_optim_rng.pt");
    }
    return files;
}

Grid place(const std::vector<std::string>& ranks, const Sizes& stated) {
    return place_files(files_of(ranks), stated);
}

std::string places_text(const Grid& grid) {
    std::string text;
    for (const auto& at : grid.places) {
        text += "t" + std::to_string(at.tp) + "p" + std::to_string(at.pp) + "e" +
                std::to_string(at.ep) + "x" + std::to_string(at.etp) + " ";
    }
    return text;
}

TEST(RankName, has_one_to_three_numbers_of_any_width) {
    EXPECT_EQ(parse_rank_name("mp_rank_01")->n_fields, 1U);
    EXPECT_EQ(parse_rank_name("mp_rank_01_002_003")->n_fields, 3U);
    EXPECT_EQ(parse_rank_name("mp_rank_128_1024")->fields, (std::array<Index, 3>{128, 1024, 0}));
    for (const char* name : {"mp_rank_", "mp_rank_0_", "mp_rank_0_1_2_3", "mp_rank_x", "mp_rank_-1",
                             "rank_0", "mp_rank_00_model_states.pt", "mp_rank_99999999"}) {
        EXPECT_FALSE(parse_rank_name(name)) << name;
    }
}

TEST(Grid, gives_a_second_number_the_meaning_that_args_give) {
    const std::vector<std::string> ranks = {"00_000", "00_001"};
    EXPECT_EQ(places_text(place(ranks, {{"tp", 1}, {"pp", 2}, {"ep", 1}})), "t0p0e0x0 t0p1e0x0 ");
    EXPECT_EQ(places_text(place(ranks, {{"tp", 1}, {"pp", 1}, {"ep", 2}})), "t0p0e0x0 t0p0e1x0 ");
    EXPECT_EQ(places_text(place(ranks, {})), "t0p0e0x0 t0p1e0x0 ");
}

// The ranks that write: tp 4, etp 2, ep 2, one data-parallel rank.
TEST(Grid, knows_expert_groups_cut_out_of_tensor_groups) {
    const Sizes stated = {{"tp", 4}, {"pp", 1}, {"ep", 2}, {"etp", 2}};
    EXPECT_EQ(places_text(place({"00_000", "01_000", "02_001", "03_001"}, stated)),
              "t0p0e0x0 t1p0e0x1 t2p0e1x0 t3p0e1x1 ");
    expect_error(ErrorCode::not_found,
                 "rank files are missing: mp_rank_02_001/model_optim_rng.pt (the run had tp 4, pp "
                 "1, ep 2, etp 2)",
                 [&] {
                     place({"00_000", "01_000", "03_001"}, stated);
                 });
    EXPECT_EQ(
        places_text(place({"00_000", "01_001"}, {{"tp", 2}, {"pp", 1}, {"ep", 2}, {"etp", 1}})),
        "t0p0e0x0 t1p0e1x0 ");
    EXPECT_EQ(place({"00_000", "00_001", "01_000", "01_001"},
                    {{"tp", 2}, {"pp", 1}, {"ep", 2}, {"etp", 2}})
                  .places.size(),
              4U);
}

// Every rank r < max(tp, etp * ep) of every stage is needed: without any one file the grid is
// refused.
TEST(Grid, misses_every_single_file) {
    for (const Index tp : {1, 2, 4, 11}) {
        for (const Index pp : {1, 3}) {
            for (const Index ep : {2, 12}) {
                const Sizes stated = {{"tp", tp}, {"pp", pp}, {"ep", ep}, {"etp", 1}};
                std::vector<std::string> ranks;
                for (Index p = 0; p < pp; ++p) {
                    for (Index r = 0; r < std::max(tp, ep); ++r) {
                        ranks.push_back(std::to_string(r % tp) +
                                        (pp > 1 ? "_" + std::to_string(p) : "") + "_" +
                                        std::to_string(r % ep));
                    }
                }
                std::sort(ranks.begin(), ranks.end());
                ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
                EXPECT_EQ(place(ranks, stated).places.size(), ranks.size());
                for (std::size_t gone = 0; gone < ranks.size(); ++gone) {
                    auto rest = ranks;
                    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(gone));
                    expect_error(ErrorCode::not_found, "rank files are missing: mp_rank_",
                                 [&] { place(rest, stated); });
                }
            }
        }
    }
}

TEST(Grid, names_missing_files_as_the_trainer_would) {
    const Sizes stated = {{"tp", 2}, {"pp", 2}, {"ep", 1}};
    expect_error(ErrorCode::not_found,
                 "missing: mp_rank_01_000/model_optim_rng.pt, mp_rank_00_001/model_optim_rng.pt, "
                 "mp_rank_01_001/model_optim_rng.pt (the run",
                 [&] { place({"00_000"}, stated); });
    expect_error(ErrorCode::not_found, "mp_rank_00_011/model_optim_rng.pt (the run", [&] {
        std::vector<std::string> ranks;
        for (int p = 0; p < 11; ++p) {
            ranks.push_back("00_0" + std::string(p < 10 ? "0" : "") + std::to_string(p));
        }
        place(ranks, {{"tp", 1}, {"pp", 12}});
    });
    // A claim of a million million ranks is refused without counting them.
    expect_error(ErrorCode::not_found, "and more", [&] {
        place({"00_000"}, {{"tp", 1 << 20}, {"pp", 1 << 20}});
    });
}

TEST(Grid, decides_by_names_when_there_are_no_args) {
    const Grid grid = place({"00_000_000", "00_000_001", "00_001_000", "00_001_001"}, {});
    EXPECT_EQ(grid.tp, 1);
    EXPECT_EQ(grid.pp, 2);
    EXPECT_EQ(grid.ep, 2);
    EXPECT_EQ(place({"00", "01", "02"}, {}).tp, 3);
    expect_error(ErrorCode::not_found, "mp_rank_01/model_optim_rng.pt", [&] {
        place({"00", "02"}, {});
    });
}

TEST(Grid, takes_a_third_number_without_experts_for_the_data_parallel_rank) {
    const Grid grid =
        place({"00_000_000", "00_000_001", "00_001_000", "00_001_001"}, {{"tp", 1}, {"pp", 2}});
    EXPECT_EQ(grid.ep, 1);
    EXPECT_EQ(grid.extra, (std::vector<bool>{false, true, false, true}));
}

TEST(Grid, refuses_names_that_contradict_args_or_each_other) {
    expect_error(ErrorCode::mismatch, "tp size is 4 in args but 5 in the files", [&] {
        place({"00", "01", "02", "03", "04"}, {{"tp", 4}});
    });
    expect_error(ErrorCode::mismatch, "have 1 number in their names, expected 2", [&] {
        place({"00"}, {{"tp", 1}, {"pp", 2}});
    });
    expect_error(ErrorCode::mismatch, "have 2 numbers in their names, expected 3", [&] {
        place({"00_000"}, {{"tp", 1}, {"pp", 2}, {"ep", 2}});
    });
    expect_error(ErrorCode::mismatch,
                 "is 1 in mp_rank_00/model_optim_rng.pt but 2 in mp_rank_00_001/model_optim_rng.pt",
                 [&] {
                     place({"00", "00_001"}, {});
                 });
    expect_error(ErrorCode::mismatch, "are the same rank", [&] { place({"0", "00"}, {}); });
    expect_error(ErrorCode::unsupported, "expert tensor size 2 does not divide tensor size 1", [&] {
        place({"00_000", "00_001"}, {{"tp", 1}, {"ep", 2}, {"etp", 2}});
    });
    expect_error(ErrorCode::unsupported, "expert tensor size 2 does not divide tensor size 3", [&] {
        place({"00", "01", "02"}, {{"tp", 3}, {"etp", 2}});
    });
}

using catalogue::StatedConfig;
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
    EXPECT_EQ(places[1], (RankPlace{{"pp", "1"}, {"tp", "0"}}));
}

TEST(RankOrder, may_have_data_parallel_ranks_outermost) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const Ranks ranks = {0, 2, 1, 3};
    const StatedConfig world = {{"world_size", "8"}, {"use_tp_pp_dp_mapping", "true"}};
    EXPECT_EQ(places_by_rank(grid, world, ranks)[3], (RankPlace{{"pp", "1"}, {"tp", "1"}}));
    // Where args do not say, the order that fits; where they do, theirs.
    EXPECT_EQ(places_by_rank(grid, {{"world_size", "8"}}, ranks)[3],
              (RankPlace{{"pp", "1"}, {"tp", "1"}}));
    const StatedConfig other = {{"world_size", "8"}, {"use_tp_pp_dp_mapping", "false"}};
    EXPECT_EQ(places_by_rank(grid, other, ranks)[3], (RankPlace{{"pp", "0"}, {"tp", "1"}}));
}

TEST(RankOrder, of_context_parallel_ranks_lies_between) {
    const Grid grid = grid_of(kTp2Pp2, {{"tp", 2}, {"pp", 2}});
    const StatedConfig args = {
        {"world_size", "16"}, {"context_parallel_size", "2"}, {"use_tp_pp_dp_mapping", "true"}};
    EXPECT_EQ(places_by_rank(grid, args, Ranks{0, 4, 1, 5})[1],
              (RankPlace{{"pp", "1"}, {"tp", "0"}}));
}

TEST(RankOrder, counts_expert_ranks_in_a_grid_of_their_own) {
    const Grid grid =
        grid_of({"mp_rank_00_000/a.pt", "mp_rank_01_001/a.pt"}, {{"tp", 2}, {"ep", 2}, {"etp", 1}});
    EXPECT_EQ(places_by_rank(grid, {{"world_size", "2"}}, Ranks{0, 1})[1],
              (RankPlace{{"ep", "1"}, {"tp", "1"}}));
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
    EXPECT_EQ(places[0], (RankPlace{{"pp", "0"}, {"tp", "1"}}));
}

}  // namespace
}  // namespace shardweld::formats::megatron
