#include "io/listed_once.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/paths.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

using test::TemporaryDirectory;

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : entries_of(directory)) {
        names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

TEST(ListedOnce, finds_again_what_was_there_at_the_first_look) {
    const TemporaryDirectory place;
    place.put("a");
    const std::vector<std::string> before = {"a"};
    const std::vector<std::string> after = {"a", "b"};
    {
        const ListedOnce once;
        EXPECT_EQ(names_in(place.path()), before);
        place.put("b");
        EXPECT_EQ(names_in(place.path()), before);
        EXPECT_EQ(names_in(place.path() / ""), before);
        EXPECT_EQ(kind_at(place.path() / "b"), FileKind::none);
        {
            const ListedOnce inside;
            EXPECT_EQ(names_in(place.path()), before);
        }
        EXPECT_EQ(names_in(place.path()), before);
    }
    EXPECT_EQ(names_in(place.path()), after);
    EXPECT_EQ(kind_at(place.path() / "b"), FileKind::file);
}

TEST(ListedOnce, tells_kinds_as_the_system_does) {
    const TemporaryDirectory place;
    place.put("below/file");
    fs::create_symlink("below", place.path() / "link");
    fs::create_symlink("nothing", place.path() / "broken");
    const auto kinds = [&] {
        std::vector<FileKind> found;
        for (const char* const name : {"below", "below/file", "below/other", "link", "link/file",
                                       "broken", "absent", ".", "..", "below/.."}) {
            found.push_back(kind_at(place.path() / name));
        }
        return found;
    };
    const std::vector<FileKind> plain = kinds();
    const ListedOnce once;
    EXPECT_EQ(kinds(), plain) << "nothing was listed yet";
    (void)entries_of(place.path());
    (void)entries_of(place.path() / "below");
    EXPECT_EQ(kinds(), plain);
}

}  // namespace
}  // namespace shardweld::io
