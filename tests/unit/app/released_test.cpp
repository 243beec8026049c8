#include "app/survey/released.hpp"

#include <gtest/gtest.h>

namespace shardweld::app {
namespace {

TEST(ReleasedIn, reads_what_lfs_says) {
    EXPECT_EQ(released_in("/a b/x.distcp: (0x0000000d) released exists archived, archive_id:1"),
              "/a b/x.distcp");
    EXPECT_EQ(released_in("/released: (0x00000009) exists archived, archive_id:1"), "");
    EXPECT_EQ(released_in("/x: (0x00000000)"), "");
    EXPECT_EQ(released_in("lfs hsm_state: cannot get HSM state of '/released x'"), "");
    EXPECT_EQ(released_in(""), "");
}

}  // namespace
}  // namespace shardweld::app
