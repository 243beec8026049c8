#include "io/write_behind.hpp"

#include <string>
#include <vector>

#include <sys/vfs.h>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::io {
namespace {

/// Writes `bytes` at `rate` bytes a second; whether the next are to be written behind.
bool after(Pace& pace, Bytes bytes, double rate) {
    for (Bytes done = 0; done < bytes; done += kMiB) {
        pace.next(kMiB, static_cast<double>(kMiB) / rate, static_cast<double>(kMiB) / rate);
    }
    return pace.is_behind();
}

TEST(Pace, leaves_a_quick_cache_alone) {
    Pace pace;
    EXPECT_FALSE(after(pace, 8192 * kMiB, 4e9));
}

TEST(Pace, sends_to_the_disk_what_it_judges_first) {
    Pace pace;
    EXPECT_TRUE(pace.is_behind());
    EXPECT_TRUE(after(pace, 31 * kMiB, 4e9));
    EXPECT_FALSE(after(pace, kMiB, 4e9));
    Pace slow;
    EXPECT_TRUE(after(slow, 32 * kMiB, 0.3e9));
    EXPECT_TRUE(after(slow, 512 * kMiB, 1.5e9));
}

TEST(Pace, is_not_misled_by_other_processes) {
    Pace pace;
    for (Bytes done = 0; done < 1024 * kMiB; done += kMiB) {
        pace.next(kMiB, 0.01, 0.0002);
        EXPECT_EQ(pace.is_behind(), done + kMiB < 32 * kMiB) << "100 MB/s by the wall clock";
    }
}

TEST(Pace, tries_the_disk_when_the_cache_is_slow) {
    Pace pace;
    EXPECT_FALSE(after(pace, 512 * kMiB, 4e9));
    EXPECT_TRUE(after(pace, 64 * kMiB, 0.3e9));
    EXPECT_TRUE(after(pace, 1024 * kMiB, 1.5e9)) << "the disk is quicker";
}

TEST(Pace, returns_from_a_disk_that_is_slower_still) {
    Pace pace;
    EXPECT_TRUE(after(pace, 64 * kMiB, 0.5e9));
    Bytes n_behind = 0;
    while (pace.is_behind()) {
        pace.next(kMiB, static_cast<double>(kMiB) / 0.1e9, 0);
        n_behind += kMiB;
        ASSERT_LT(n_behind, 512 * kMiB);
    }
    EXPECT_FALSE(after(pace, 1024 * kMiB, 0.5e9)) << "known to be slower: not tried at once again";
    EXPECT_TRUE(after(pace, 1024 * kMiB, 0.05e9)) << "now it would be quicker";
}

TEST(Pace, tries_the_cache_again_after_a_while) {
    Pace pace;
    EXPECT_TRUE(after(pace, 64 * kMiB, 0.3e9));
    EXPECT_FALSE(after(pace, 8704 * kMiB, 1.5e9));
}

bool keeps_pages_in_memory_only(const std::filesystem::path& path) {
    constexpr long kTmpfs = 0x01021994;
    struct statfs status {};
    return ::statfs(path.c_str(), &status) == 0 && status.f_type == kTmpfs;
}

TEST(WriteBehind, leaves_nothing_in_the_page_cache) {
    const test::TemporaryDirectory directory;
    if (keeps_pages_in_memory_only(directory.path())) {
        GTEST_SKIP() << "tmpfs has no disk";
    }
    const auto path = directory.path() / "out";
    OutputFile file = OutputFile::create(path);
    std::string text;
    WriteBehind behind;
    for (int i = 0; i < 96; ++i) {
        const std::string part(kMiB, static_cast<char>('a' + i % 26));
        file.write_at(text.size(), std::as_bytes(std::span(part)));
        behind.add(file, text.size(), part.size());
        text += part;
    }
    EXPECT_GT(InputFile::open(path).cached_share(), 0) << "the last extents are on their way";
    behind.finish(file);
    file.close();

    EXPECT_EQ(InputFile::open(path).cached_share(), 0);
    EXPECT_EQ(test::content_of(path), text);
    const auto input = InputFile::open(path);
    // Not all of it where others need the memory.
    EXPECT_GT(input.cached_share(), 0) << "reading brought it back";
    input.forget(0, input.size());
    EXPECT_EQ(input.cached_share(), 0);
}

TEST(WriteBehind, takes_extents_in_any_order) {
    const test::TemporaryDirectory directory;
    const auto path = directory.path() / "out";
    OutputFile file = OutputFile::create(path);
    WriteBehind behind;
    const std::string a(5000, 'a');
    const std::string b(3000, 'b');
    file.write_at(5000, std::as_bytes(std::span(b)));
    behind.add(file, 5000, b.size());
    file.write_at(0, std::as_bytes(std::span(a)));
    behind.add(file, 0, a.size());
    behind.finish(file);
    file.close();
    EXPECT_EQ(test::content_of(path), a + b);
}

}  // namespace
}  // namespace shardweld::io
