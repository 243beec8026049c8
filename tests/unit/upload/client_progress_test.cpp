#include "upload/client_progress.hpp"

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::upload {
namespace {

TEST(ClientProgress, adds_up_the_bars_of_files) {
    const test::TemporaryDirectory scratch;
    scratch.put("a.safetensors", std::string(1000, 'a'));
    scratch.put("b.safetensors", std::string(3000, 'b'));
    ClientProgress progress(scratch.path());
    EXPECT_EQ(progress.total(), 4000U);
    EXPECT_EQ(progress.read("Computing sha256 for 2 files."), 0U);
    EXPECT_EQ(progress.read("Upload 2 LFS files:  50%|     | 1/2 [00:00<?, ?it/s]"), 0U);
    EXPECT_EQ(progress.read("a.safetensors:  50%|#####     | 500/1.00k [00:00<?, ?B/s]"), 500U);
    EXPECT_EQ(progress.read("b.safetensors:  10%|#         | 300/3.00k [00:00<?, ?B/s]"), 800U);
    EXPECT_EQ(progress.read("a.safetensors:  40%|####      | tried again"), 800U);
    EXPECT_EQ(progress.read("a.safetensors: 100%|##########| 1.00k/1.00k"), 1300U);
    for (const char* odd : {"b.safetensors: 101%|", "b.safetensors: x%|", "b.safetensors:%|",
                            "c.safetensors: 10%|", "50%|", "%|", "", ": 99999999999999999999%|"}) {
        EXPECT_EQ(progress.read(odd), 1300U) << odd;
    }
}

TEST(ClientProgress, takes_the_bar_of_all_files) {
    const test::TemporaryDirectory scratch;
    scratch.put("a.safetensors", std::string(1000, 'a'));
    ClientProgress progress(scratch.path());
    EXPECT_EQ(progress.read("Processing Files (0 / 1):  42%|####2     |  420B /  1.00kB"), 420U);
    EXPECT_EQ(progress.read("New Data Upload:  80%|########  |"), 420U);
}

TEST(ClientProgress, knows_nothing_of_a_directory_that_is_gone) {
    EXPECT_EQ(ClientProgress("/nowhere").total(), 0U);
}

}  // namespace
}  // namespace shardweld::upload
