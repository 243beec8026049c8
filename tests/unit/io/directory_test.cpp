#include "io/directory.hpp"

#include <set>
#include <string>

#include <sys/resource.h>

#include <gtest/gtest.h>

#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::error_text;
using test::TemporaryDirectory;

TEST(Directory, is_told_from_another_one_with_its_name) {
    const TemporaryDirectory place;
    const fs::path path = place.path() / "out";
    fs::create_directory(path);
    const Directory first(path);
    const Directory copy = first;
    const auto refusal = [](const Directory& directory) {
        return error_text([&] { directory.require_same(); });
    };
    EXPECT_EQ(refusal(first), "no error");
    fs::remove(path);
    const std::string gone = "target: " + path.string() + " is no longer the directory that ";
    EXPECT_EQ(refusal(first).substr(0, gone.size()), gone);
    // The file system would give the same number again if it were not held.
    fs::create_directory(path);
    EXPECT_EQ(refusal(first).substr(0, gone.size()), gone);
    EXPECT_EQ(refusal(copy).substr(0, gone.size()), gone);
    EXPECT_EQ(refusal(Directory(path)), "no error");
}

TEST(Directory, may_be_absent) {
    const TemporaryDirectory place;
    EXPECT_EQ(error_text([&] { Directory(place.path() / "none").require_same(); }), "no error");
    EXPECT_EQ(error_text([&] { Directory(fs::path()).require_same(); }), "no error");
}

TEST(Directory, tells_later_that_it_could_not_be_opened) {
    const TemporaryDirectory place;
    fs::create_directory(place.path() / "out");
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    const rlimit none{0, before.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
    const Directory directory(place.path() / "out");
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
    EXPECT_EQ(error_text([&] { directory.require_same(); }),
              "io: cannot open directory " + (place.path() / "out").string() +
                  ": Too many open files (errno 24); allow more open files (`ulimit -n`), or keep "
                  "fewer open (--max_open)");
}

TEST(Directory, is_the_same_whatever_becomes_of_its_name) {
    const TemporaryDirectory place;
    place.put("out/a/b/c", "x");
    place.put("out/d", "x");
    fs::create_directory_symlink(place.path(), place.path() / "out/link");
    const Directory out(place.path() / "out");
    fs::rename(place.path() / "out", place.path() / "moved");
    const auto names = [&] {
        std::set<std::string> all;
        for (const Below& entry : listed_below(out)) {
            all.insert(entry.name.string() + (entry.is_directory ? "/" : ""));
        }
        return all;
    };
    EXPECT_EQ(names(), (std::set<std::string>{"a/", "a/b/", "a/b/c", "d", "link"}));
    EXPECT_EQ(make_below(out, "a/e/f"), (std::vector<fs::path>{"a/e", "a/e/f"}));
    EXPECT_EQ(error_text([&] { make_below(out, "link/g"); }),
              "target: " + (place.path() / "out/link").string() +
                  " is in the way of a directory; "
                  "remove it or give another path");
    EXPECT_EQ(
        error_text([&] { Directory(out, "link"); }),
        "target: " + (place.path() / "out/link").string() + " is gone or no longer a directory");
    EXPECT_TRUE(Directory(out, "a").is_at(Directory(place.path() / "moved"), "a"));
    EXPECT_FALSE(Directory(out, "a").is_at(out, "a/b"));
    EXPECT_FALSE(Directory(out, "a").is_at(out, "none"));
    remove_below(out, "a");
    remove_below(out, "link");
    remove_below(out, "none");
    EXPECT_EQ(names(), (std::set<std::string>{"d"}));
    EXPECT_TRUE(fs::exists(place.path() / "moved/d"));
    sync(out);
}

}  // namespace
}  // namespace shardweld::io
