// Options about storage, and a merge's speed beside the roof.
#include <gtest/gtest.h>

#include "app/cli/parse_options.hpp"
#include "app/report/roof.hpp"
#include "app/settings/options.hpp"
#include "shardweld/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::app {
namespace {

Options parsed_words(std::vector<std::string> words) {
    words.insert(words.begin(), "shardweld");
    return parse_options(words);
}

TEST(StorageOptions, read_striping) {
    const auto striped = [](const std::string& text) {
        return *parsed_words({"merge", "--local_dir", "x", "--stripe", text}).striping;
    };
    EXPECT_EQ(striped("8"), (publish::Striping{8, 0}));
    EXPECT_EQ(striped("all"), (publish::Striping{-1, 0}));
    EXPECT_EQ(striped("-1,64KiB"), (publish::Striping{-1, 65536}));
    EXPECT_EQ(striped("2000,4MiB"), (publish::Striping{2000, Bytes{4} << 20U}));
    EXPECT_EQ(parsed_words({"merge", "--local_dir", "x"}).striping, std::nullopt);
}

TEST(StorageOptions, have_the_defaults_of_a_merge) {
    const Options options = parsed_words({"iobench", "place"});
    EXPECT_EQ(options.local_dir, "place");
    EXPECT_EQ(options.bench_size, 4'000'000'000U);
    EXPECT_EQ(options.max_shard_size, parsed_words({"merge", "--local_dir", "x"}).max_shard_size);
    EXPECT_EQ(options.extent, Bytes{1} << 20U);
    EXPECT_EQ(options.n_repeats, 3);
    EXPECT_TRUE(options.sync);
    EXPECT_FALSE(options.is_cold || options.is_kept || options.bench_source);
    EXPECT_TRUE(parsed_words({"iobench", "place", "--no_fsync", "--cold", "--keep"}).is_cold);
}

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
