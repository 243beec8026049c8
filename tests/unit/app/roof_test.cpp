#include "app/report/roof.hpp"

#include <gtest/gtest.h>

#include "shardweld/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

TEST(MergeSpeed, is_half_of_what_is_read_and_written_over_the_phases_from_create_to_publish) {
    const std::vector<Phase> phases = {{"survey", 50, 0, 0, 0, 0},  {"plan", 20, 0, 0, 0, 0},
                                       {"create", 0.5, 0, 0, 0, 0}, {"factors", 0.25, 0, 0, 0, 0},
                                       {"execute", 1, 0, 0, 0, 0},  {"publish", 0.25, 0, 0, 0, 0},
                                       {"upload", 99, 0, 0, 0, 0}};
    EXPECT_DOUBLE_EQ(merge_gbs(phases, 4'000'000'000, 4'000'000'000), 2.0);
    EXPECT_DOUBLE_EQ(merge_gbs(phases, 4'000'000'000, 2'000'000'000), 1.5);
    EXPECT_DOUBLE_EQ(merge_gbs({}, 1, 1), 0.0);
    EXPECT_EQ(text_of(Roof{4.25, 3.614, 85.035}),
              "3.61 GB/s, 85 % of the roof measured by iobench");
}

TEST(ReadRoof, takes_what_iobench_says) {
    const test::TemporaryDirectory directory;
    const auto path = directory.put("roof.json",
                                    R"({"schema": 1, "command": "iobench", "ranks": 3,
                                        "fsync": false, "roof": {"gbs": 2.5}})");
    const MeasuredRoof roof = read_roof(path);
    EXPECT_DOUBLE_EQ(roof.copy_gbs, 2.5);
    EXPECT_TRUE(roof_doubts(roof, 3, false).empty());
    EXPECT_EQ(roof_doubts(roof, 2, true).size(), 2U);
    EXPECT_EQ(roof_doubts(roof, 3, true),
              std::vector<std::string>{"the roof was measured without fsync, this merge is with"});
}

}  // namespace
}  // namespace shardweld::app
