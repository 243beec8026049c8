#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "shardweld/error.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

/// A target of 1,024 bytes for each of `n_files` files.
std::vector<Target> one_a_file(std::uint32_t n_files) {
    std::vector<Target> targets;
    for (std::uint32_t file = 0; file < n_files; ++file) {
        targets.push_back(test::flat_target("w" + std::to_string(file), DType::u8, 1024, file));
    }
    return targets;
}

Plan planned(Visibility visibility, int max_readers) {
    const auto n_files = static_cast<std::uint32_t>(visibility.group_sees.front().size());
    JobPlan choice;
    choice.max_readers = max_readers;
    return make_plan(one_a_file(n_files), std::vector<catalogue::File>(n_files, {"f", 1024}),
                     std::move(visibility), choice);
}

std::vector<int> used_readers(const Plan& plan) {
    std::vector<int> used;
    for (const Target& target : plan.targets) {
        used.push_back(plan.reader_of(target.operands.front(), target, 0));
    }
    return used;
}

TEST(Readers, are_all_ranks_without_a_limit) {
    for (const int limit : {0, 3, 7}) {
        const Plan plan = planned(Visibility::everywhere(3, 6), limit);
        EXPECT_EQ(plan.readers, (std::vector<int>{0, 1, 2})) << limit;
        EXPECT_EQ(plan.strategy, Strategy::direct) << limit;
    }
}

TEST(Readers, are_spread_evenly_and_share_the_files) {
    const Plan plan = planned(Visibility::everywhere(12, 6), 3);
    EXPECT_EQ(plan.readers, (std::vector<int>{0, 4, 8}));
    EXPECT_EQ(plan.strategy, Strategy::collective);
    EXPECT_EQ(plan.why, "3 of 12 ranks read, as --max_readers asks");
    EXPECT_EQ(used_readers(plan), (std::vector<int>{0, 0, 4, 4, 8, 8}));
}

TEST(Readers, come_from_every_view_of_the_files) {
    // Ranks 0 to 3 see the first half of the files, rank 4 the second.
    const Visibility halves{{0, 0, 0, 0, 1},
                            {{true, true, false, false}, {false, false, true, true}}};
    const Plan plan = planned(halves, 3);
    EXPECT_EQ(plan.readers, (std::vector<int>{0, 2, 4}));
    EXPECT_EQ(used_readers(plan)[2], 4);
    EXPECT_EQ(used_readers(plan)[3], 4);
    try {
        (void)planned(halves, 1);
        FAIL() << "file 2 has no reader";
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::usage);
        EXPECT_NE(error.full_text().find("use at least 2 readers"), std::string::npos)
            << error.full_text();
    }
}

}  // namespace
}  // namespace shardweld::plan
