#include "shardweld/error.hpp"

#include <gtest/gtest.h>

namespace shardweld {
namespace {

TEST(Error, ContextIsListedInTheOrderOfAdding) {
    Error error(ErrorCode::corrupt, "cut short");
    EXPECT_EQ(error.full_text(), "cut short");
    error.add_context("tensor a").add_context("file x.pt");
    EXPECT_EQ(error.full_text(), "cut short [tensor a; file x.pt]");
}

TEST(Error, HasThreePartsAndADetail) {
    const Error error = Error(ErrorCode::corrupt, "cut short", "copy it again")
                            .add_context("found 3 bytes, expected 4 bytes")
                            .set_detail("line 3");
    EXPECT_STREQ(error.what(), "cut short");
    EXPECT_EQ(error.full_text(), "cut short [found 3 bytes, expected 4 bytes]; copy it again");
    EXPECT_EQ(error.detail(), "line 3");
}

TEST(Error, AFileIsNamedOnce) {
    Error error(ErrorCode::corrupt, "cut short");
    error.add_context("file /data/mp_rank_00/x.pt at offset 5");
    error.add_context("file mp_rank_00/x.pt").add_context("file x.pt");
    EXPECT_EQ(error.full_text(), "cut short [file /data/mp_rank_00/x.pt at offset 5]");
}

TEST(Error, FilesOfLikeNamesAreBothNamed) {
    Error error(ErrorCode::corrupt, "cut short");
    error.add_context("file /data/x.pt2").add_context("file x.pt").add_context("tensor x.pt");
    EXPECT_EQ(error.full_text(), "cut short [file /data/x.pt2; file x.pt; tensor x.pt]");
}

}  // namespace
}  // namespace shardweld
