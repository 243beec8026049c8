#include "io/extents.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::TemporaryDirectory;

constexpr Bytes kMiB = Bytes{1} << 20U;

TEST(Extents, are_missing_where_nothing_was_written_or_reserved) {
    const TemporaryDirectory place;
    const fs::path path = place.put("x", "");
    const int fd = ::open(path.c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    ASSERT_EQ(::ftruncate(fd, 4 * kMiB), 0);
    const auto all = ranges_without_blocks(fd, 4 * kMiB);
    ASSERT_EQ(all.size(), 1U);
    EXPECT_EQ(all.front(), std::pair(Bytes{0}, 4 * kMiB));
    const bool is_reserved = ::fallocate(fd, 0, kMiB, kMiB) == 0;
    ASSERT_EQ(::fsync(fd), 0);
    const auto rest = ranges_without_blocks(fd, 4 * kMiB);
    if (is_reserved && rest != all) {  // the file system tells
        const std::vector<std::pair<Bytes, Bytes>> around = {{0, kMiB}, {2 * kMiB, 4 * kMiB}};
        EXPECT_EQ(rest, around);
        ASSERT_EQ(::fallocate(fd, 0, 0, 4 * kMiB), 0);
        EXPECT_TRUE(ranges_without_blocks(fd, 4 * kMiB).empty());
    }
    ::close(fd);
}

}  // namespace
}  // namespace shardweld::io
