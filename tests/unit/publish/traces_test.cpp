// Whose work is taken up, and which lock files are written to.
#include "publish/traces.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "publish/target.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::publish {
namespace {

using test::content_of;
using test::error_text;
using test::TemporaryDirectory;

constexpr uid_t kNobody = 65534;

class OwnWork : public ::testing::Test {
  protected:
    OwnWork() {
        old_mask_ = ::umask(022);
        place_.put(".out.shardweld-partial/journal/1-0", "blocks");
        place_.put(".out.shardweld-partial/journal/header.json", "{}");
        place_.put(".out.shardweld-partial/model.safetensors");
    }
    ~OwnWork() override { (void)::umask(old_mask_); }
    OwnWork(const OwnWork&) = delete;
    OwnWork& operator=(const OwnWork&) = delete;
    OwnWork(OwnWork&&) = delete;
    OwnWork& operator=(OwnWork&&) = delete;

    [[nodiscard]] fs::path partial() const { return place_.path() / ".out.shardweld-partial"; }
    [[nodiscard]] fs::path target() const { return place_.path() / "out"; }
    void allow(const fs::path& path, mode_t mode) const {
        ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    }
    /// What a run that resumes says.
    [[nodiscard]] std::string answer() const {
        return error_text([&] { require_own_work(partial(), ::geteuid()); });
    }
    [[nodiscard]] std::string refusal(const fs::path& path, const std::string& why) const {
        return "target: cannot continue the earlier merge: " + path.string() + " " + why +
               ", and what it says was written is believed; start from the beginning with "
               "--restart, "
               "which removes " +
               partial().string();
    }
    TemporaryDirectory place_;

  private:
    mode_t old_mask_ = 0;
};

TEST_F(OwnWork, is_taken_up) {
    EXPECT_EQ(answer(), "no error");
    EXPECT_TRUE(PartialDirectory::create(target(), {}, false, true).is_taken_up());
}

TEST_F(OwnWork, is_nobody_elses_to_write) {
    for (const char* name : {"", "journal", "journal/1-0"}) {
        const fs::path path = *name == 0 ? partial() : partial() / name;
        const mode_t mode = fs::is_directory(path) ? 0755 : 0644;
        allow(path, mode | 0002U);
        EXPECT_EQ(answer(), refusal(path, "is writable by others (mode " +
                                              std::string(mode == 0755 ? "0757)" : "0646)")));
        allow(path, mode | 0020U);
        EXPECT_NE(answer(), "no error");
        (void)::umask(002);
        EXPECT_EQ(answer(), "no error") << "who works with this umask shares with the group";
        (void)::umask(022);
        allow(path, mode);
    }
    allow(place_.path(), 02775);
    allow(partial(), 02775);
    EXPECT_EQ(answer(), "no error") << "the group can replace it anyway";
    EXPECT_EQ(error_text([&] {
                  allow(partial(), 0777);
                  (void)PartialDirectory::create(target(), {}, false, true);
              }),
              refusal(partial(), "is writable by others (mode 0777)"));
    // With --restart, a run removes it.
    (void)PartialDirectory::create(target(), {}, false);
    EXPECT_FALSE(fs::exists(partial()));
}

TEST_F(OwnWork, has_no_links) {
    fs::create_hard_link(partial() / "journal/1-0", place_.path() / "other");
    EXPECT_EQ(answer(), refusal(partial() / "journal/1-0", "has other names (hard links)"));
    fs::remove(partial() / "journal/1-0");
    fs::create_symlink(place_.path() / "other", partial() / "journal/1-0");
    EXPECT_EQ(answer(), refusal(partial() / "journal/1-0", "is not a regular file"));
}

TEST_F(OwnWork, belongs_to_who_runs_this) {
    if (::geteuid() != 0) {
        GTEST_SKIP() << "only root can give files away";
    }
    ASSERT_EQ(::chown(partial().c_str(), kNobody, static_cast<gid_t>(-1)), 0);
    EXPECT_EQ(answer(), refusal(partial(), "belongs to user 65534, not to user 0 who runs this"));
    EXPECT_EQ(error_text([&] { require_own_work(partial(), kNobody); }),
              refusal(partial() / "journal", "belongs to user 0, not to user 65534 who runs this"));
}

TEST_F(OwnWork, writes_into_no_file_of_others) {
    // Hard links of a file that means something, as a lock.
    const fs::path lock = place_.path() / ".out.shardweld-lock";
    const fs::path victim = place_.put("victim", "precious");
    fs::create_hard_link(victim, lock);
    { const auto partial = PartialDirectory::create(target(), {}, false); }
    EXPECT_EQ(content_of(victim), "precious");
    if (::geteuid() == 0) {
        place_.put(".out.shardweld-lock", "elsewhere 1\n");
        ASSERT_EQ(::chown(lock.c_str(), kNobody, static_cast<gid_t>(-1)), 0);
        const auto partial = PartialDirectory::create(target(), {}, false);
        struct stat status {};
        ASSERT_EQ(::stat(lock.c_str(), &status), 0);
        EXPECT_EQ(status.st_uid, 0U) << "the run's own has taken its place";
    }
    EXPECT_FALSE(fs::exists(lock));
}

}  // namespace
}  // namespace shardweld::publish
