// Links of checkpoints and of the Hub's cache.
#include "io/beneath.hpp"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

namespace fs = std::filesystem;

void make(const fs::path& path) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "x";
}

class Links : public ::testing::Test {
  protected:
    Links() {
        make(top() / "checkpoint/sub/inside");
        make(top() / "checkpoint2/outside");
        fs::create_directory(top() / "hub");
    }
    [[nodiscard]] fs::path top() const { return fs::canonical(place_.path()); }
    [[nodiscard]] fs::path link(const std::string& name, const fs::path& to) const {
        fs::create_symlink(to, top() / "checkpoint" / name);
        return top() / "checkpoint" / name;
    }
    [[nodiscard]] fs::path root() const { return top() / "checkpoint"; }

  private:
    test::TemporaryDirectory place_;
};

TEST_F(Links, stay_inside_by_any_way) {
    EXPECT_EQ(leads_out_of(root() / "sub/inside", root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("a", "sub/inside"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("b", root() / "sub"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("c", "../checkpoint/sub/../sub/inside"), root()), std::nullopt);
    EXPECT_EQ(leads_out_of(link("nowhere", "/no/such/file"), root()), std::nullopt);
    fs::create_symlink(root(), top() / "alias");
    EXPECT_EQ(leads_out_of(top() / "alias/sub/inside", root()), std::nullopt);
    EXPECT_EQ(leads_out_of(root() / "a", top() / "alias"), std::nullopt);
}

TEST_F(Links, say_where_they_lead_out) {
    EXPECT_EQ(leads_out_of(link("a", "../checkpoint2/outside"), root()),
              top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("b", "a"), root()), top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("d", top() / "checkpoint2") / "outside", root()),
              top() / "checkpoint2/outside");
    EXPECT_EQ(leads_out_of(link("zero", "/dev/zero"), root()), "/dev/zero");
}

TEST_F(Links, of_the_hubs_cache_are_its_own) {
    const fs::path model = top() / "hub/models--a--b";
    const fs::path snapshot = model / "snapshots/0123";
    make(model / "blobs/abc");
    make(top() / "hub/models--c--d/blobs/abc");
    fs::create_directories(snapshot);
    fs::create_symlink("../../blobs/abc", snapshot / "config.json");
    fs::create_symlink("../../../models--c--d/blobs/abc", snapshot / "tokenizer.json");
    EXPECT_EQ(leads_out_of(snapshot / "config.json", snapshot), std::nullopt);
    EXPECT_EQ(leads_out_of(snapshot / "tokenizer.json", snapshot),
              top() / "hub/models--c--d/blobs/abc");
}

/// What is read there, or the name of the errno.
std::string read_by(int (*open)(int, const fs::path&), const fs::path& root,
                    const fs::path& relative) {
    const int directory = ::open(root.c_str(), O_PATH | O_DIRECTORY);
    const int fd = open(directory, relative);
    const int error = errno;
    ::close(directory);
    if (fd < 0) {
        return ::strerrorname_np(error);
    }
    char letter = 0;
    const ssize_t n = ::read(fd, &letter, 1);
    ::close(fd);
    return n == 1 ? std::string(1, letter) : "nothing";
}

TEST_F(Links, lead_nowhere_below_a_descriptor) {
    (void)link("file", "sub/inside");
    (void)link("directory", "sub");
    (void)link("out", top() / "checkpoint2/outside");
    // The kernel's way and the one for kernels that have none.
    for (const auto open : {open_beneath, walk_beneath}) {
        EXPECT_EQ(read_by(open, root(), "sub/inside"), "x");
        EXPECT_EQ(read_by(open, root() / "sub", "inside"), "x");
        EXPECT_EQ(read_by(open, root(), "sub/none"), "ENOENT");
        EXPECT_EQ(read_by(open, root(), "file"), "ELOOP");
        EXPECT_EQ(read_by(open, root(), "out"), "ELOOP");
        EXPECT_EQ(read_by(open, root(), "../checkpoint2/outside"), "EXDEV");
        EXPECT_EQ(read_by(open, root(), "sub/.."), "EXDEV");
        for (const char* none : {"", "sub/", "/etc/passwd"}) {
            EXPECT_EQ(read_by(open, root(), none), "EINVAL") << none;
        }
        const std::string way = read_by(open, root(), "directory/inside");
        EXPECT_TRUE(way == "ELOOP" || way == "ENOTDIR") << way;
    }
}

TEST_F(Links, are_followed_where_they_stay) {
    for (const fs::path& path : {root() / "sub/inside", link("a", "sub/inside"),
                                 link("b", root() / "sub/inside"), link("c", "sub") / "inside"}) {
        const InputFile file = open_within(path, root());
        EXPECT_EQ(file.path(), path);
        EXPECT_EQ(file.size(), 1U);
    }
    make(top() / "models--a--b/blobs/1");
    fs::create_directories(top() / "models--a--b/snapshots/0");
    fs::create_symlink("../../blobs/1", top() / "models--a--b/snapshots/0/x");
    const fs::path snapshot = top() / "models--a--b/snapshots/0";
    EXPECT_EQ(open_within(snapshot / "x", snapshot).size(), 1U);
    const fs::path out = link("out", top() / "checkpoint2/outside");
    EXPECT_EQ(test::error_text([&] { (void)open_within(out, root()); }),
              "io: " + out.string() +
                  " was changed while it was being looked at: it leads elsewhere by now; wait for "
                  "its writer to end, and start again");
    EXPECT_EQ(test::error_text([&] {
                  (void)open_within(root() / "none", root());
              }).rfind("not_found: cannot open", 0),
              0U);
    EXPECT_EQ(
        test::error_text([&] { (void)open_within(root() / "sub", root()); }),
        "unsupported: " + (root() / "sub").string() + " is a directory; expected a regular file");
}

}  // namespace
}  // namespace shardweld::io
