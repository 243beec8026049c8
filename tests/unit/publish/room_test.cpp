// Room on file systems: what is short and how it is told, what lfs says.
#include "publish/room.hpp"

#include <fstream>

#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "publish/target.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::error_text;
using test::TemporaryDirectory;

using List = std::vector<std::string>;

TEST(Shortages, tells_every_limit_that_is_exceeded) {
    const Room room{1000,
                    Bytes{3},
                    {{"user 7", Bytes{500}, Bytes{2}}, {"group 8", std::nullopt, std::nullopt}}};
    EXPECT_EQ(shortages(room, "/s", 500, 2), List{});
    EXPECT_EQ(shortages(room, "/s", 501, 2).size(), 1U);
    const List all = shortages(room, "/s", 2000, 4);
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0], "the file system of /s has 1.00 kB free, the output needs 2.00 kB");
    EXPECT_EQ(all[1], "the file system of /s has 3 free inodes, the output needs 4 files");
    EXPECT_EQ(
        all[2],
        "the quota of user 7 on the file system of /s has 500 B left, the output needs 2.00 kB");
    EXPECT_EQ(
        all[3],
        "the quota of user 7 on the file system of /s has 2 files left, the output needs 4 files");
    EXPECT_EQ(error_text([&] { require_room(room, "/s", 2000, 4); }),
              "space: " + all[0] + "\n  " + all[1] + "\n  " + all[2] + "\n  " + all[3] +
                  "; free space or choose another --target_dir; for inodes, raise "
                  "--max_shard_size");
}

TEST(Room, is_that_of_the_nearest_directory_there_is) {
    const TemporaryDirectory place;
    EXPECT_EQ(nearest_existing(place.path() / "a/b/c"), place.path());
    const Room room = room_at(place.path() / "a/b", "");
    EXPECT_GT(room.bytes_free, 0U);
    EXPECT_EQ(error_text([&] { require_room(room, place.path(), 1, 1); }), "no error");
    EXPECT_EQ(
        error_text([&] { require_room(room, place.path(), Bytes{1} << 62U, 1); }).substr(0, 6),
        "space:");
}

// Lustre 2.15: lfs quota -q -u USER DIR.
TEST(LfsQuota, is_read_with_limits_without_and_beyond) {
    const auto quota = parse_lfs_quota("/lustre/work 1000 0 3000 - 10 0 15 -\n", "user 5");
    ASSERT_TRUE(quota);
    EXPECT_EQ(quota->whose, "user 5");
    EXPECT_EQ(quota->bytes_left, Bytes{2000} * 1024);
    EXPECT_EQ(quota->files_left, Bytes{5});
    const auto none = parse_lfs_quota("     /w  [1000] 0 0 - 10 0 0 -", "user 5");
    ASSERT_TRUE(none);
    EXPECT_FALSE(none->bytes_left || none->files_left);
    const auto beyond =
        parse_lfs_quota("/a/long/name\n  5000* 1000 3000 6d23h 20* 10 15 none", "x");
    ASSERT_TRUE(beyond);
    EXPECT_EQ(beyond->bytes_left, Bytes{0});
    EXPECT_EQ(beyond->files_left, Bytes{0});
}

TEST(LfsQuota, is_unknown_when_the_answer_is_none) {
    for (const char* said :
         {"", "quotactl failed: No such process", "/w a b c d e f g h",
          "/w 99999999999999999999 0 1 - 1 0 1 -", "/w 1 0 9223372036854775807 - 1 0 1 -"}) {
        EXPECT_FALSE(parse_lfs_quota(said, "x")) << said;
    }
}

TEST(LfsQuota, is_asked_for_user_and_group) {
    const TemporaryDirectory place;
    const fs::path lfs = place.path() / "lfs";
    std::ofstream(lfs) << "#!/bin/sh\n[ \"$1 $2\" = 'quota -q' ] || exit 1\n"
                          "[ \"$3\" = -u ] && echo \"$5 10 0 30 - 1 0 0 -\" && exit 0\n"
                          "echo 'no group quota' >&2; exit 1\n";
    ASSERT_EQ(::chmod(lfs.c_str(), 0755), 0);
    const auto quotas = lfs_quotas(place.path(), place.path().string());
    ASSERT_TRUE(quotas);
    ASSERT_EQ(quotas->size(), 1U);
    EXPECT_EQ((*quotas)[0].whose, "user " + std::to_string(::geteuid()));
    EXPECT_EQ((*quotas)[0].bytes_left, Bytes{20} * 1024);
    EXPECT_FALSE(lfs_quotas(place.path(), "/nowhere"));
}

// In the directories that projects share, new files belong to the directory's group.
TEST(LfsQuota, is_asked_for_the_group_that_new_files_will_have) {
    const TemporaryDirectory place;
    const fs::path lfs = place.path() / "lfs";
    std::ofstream(lfs) << "#!/bin/sh\necho \"$5 10 0 30 - 1 0 0 -\"\n";
    ASSERT_EQ(::chmod(lfs.c_str(), 0755), 0);
    const fs::path shared = place.path() / "shared";
    fs::create_directory(shared);
    const ::gid_t other = ::getegid() + 1234;
    if (::chown(shared.c_str(), ::geteuid(), other) != 0) {
        GTEST_SKIP() << "no right to give a directory to another group";
    }
    const auto group = [&] { return lfs_quotas(shared, place.path().string())->at(1).whose; };
    EXPECT_EQ(group(), "group " + std::to_string(::getegid()));
    ASSERT_EQ(::chmod(shared.c_str(), 02755), 0);
    EXPECT_EQ(group(), "group " + std::to_string(other));
    std::ofstream(shared / "file") << "x";
    struct stat status {};
    ASSERT_EQ(::stat((shared / "file").c_str(), &status), 0);
    EXPECT_EQ(status.st_gid, other);
}

// The partial directory is made beside a target that exists, too.
TEST(Holder, is_where_the_partial_directory_will_be) {
    const TemporaryDirectory place;
    const fs::path target = place.path() / "model";
    EXPECT_EQ(holder_of(target / ""), place.path());
    EXPECT_EQ(holder_of(place.path() / "a/b/model"), place.path());
    fs::create_directory(target);
    EXPECT_EQ(holder_of(target), place.path());
    EXPECT_EQ(holder_of("/proc"), "/proc");  // a mount point has no sibling
    const fs::path before = fs::current_path();
    fs::current_path(target);
    EXPECT_EQ(holder_of("."), target);
    fs::current_path(before);
}

}  // namespace
}  // namespace shardweld::publish
