#include "formats/containers/range_reader.hpp"

#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "io/input_file.hpp"
#include "support/memory_file.hpp"

namespace shardweld::formats {
namespace {

constexpr Bytes kMiB = Bytes{1} << 20U;

/// A file whose every byte tells its place, and archives in it.
class EdgeReadsOf : public ::testing::Test {
  protected:
    static std::string numbered(Bytes bytes) {
        std::string text(bytes, '\0');
        for (Bytes i = 0; i < bytes; ++i) {
            text[i] = static_cast<char>(i * 31 + i / 251);
        }
        return text;
    }

    std::string_view at(EdgeReads& reads, Bytes offset, Bytes bytes) {
        const auto part = reads.at(offset, bytes);
        return {reinterpret_cast<const char*>(part.data()), part.size()};
    }

    /// Asks for both ends of each archive, as a reader of archives does; how many reads that took.
    std::uint64_t reads_for(const std::vector<ArchiveRange>& archives) {
        EdgeReads reads(file_, archives);
        const std::uint64_t before = io::read_calls();
        for (const ArchiveRange& archive : archives) {
            const Bytes end = archive.begin + archive.bytes;
            const Bytes n = std::min(archive.bytes, Bytes{1000});
            EXPECT_EQ(at(reads, archive.begin, n), content_.substr(archive.begin, n));
            EXPECT_EQ(at(reads, end - n, n), content_.substr(end - n, n));
            EXPECT_EQ(at(reads, archive.begin, n), content_.substr(archive.begin, n));
        }
        return io::read_calls() - before;
    }

    const std::string content_ = numbered(8 * kMiB);
    const test::MemoryFile memory_{content_};
    const io::InputFile file_ = io::InputFile::open(memory_.path());
};

TEST_F(EdgeReadsOf, neighbours_are_one_for_each_and_one_more) {
    std::vector<ArchiveRange> archives;
    for (Bytes i = 0; i < 8; ++i) {
        archives.push_back({i * kMiB, kMiB});
    }
    EXPECT_EQ(reads_for(archives), 9U);
}

TEST_F(EdgeReadsOf, archives_apart_are_two_for_each) {
    EXPECT_EQ(reads_for({{0, kMiB}, {2 * kMiB, kMiB}, {4 * kMiB, kMiB}}), 6U);
}

TEST_F(EdgeReadsOf, small_archives_are_few) {
    std::vector<ArchiveRange> archives;
    for (Bytes i = 0; i < 2048; ++i) {
        archives.push_back({i * 4096, 4000});
    }
    EXPECT_LE(reads_for(archives), 9U);  // of a MiB each
}

TEST_F(EdgeReadsOf, what_is_no_edge_is_not_answered) {
    EdgeReads reads(file_, std::vector<ArchiveRange>{{0, 4 * kMiB}});
    EXPECT_TRUE(reads.at(1000, 1000).empty());  // only its first bytes are
    EXPECT_EQ(reads.at(0, 1024).size(), 1024U);
    EXPECT_TRUE(reads.at(2 * kMiB, 100).empty());
    EXPECT_EQ(reads.at(4 * kMiB - 22, 22).size(), 22U);
    EXPECT_TRUE(reads.at(5 * kMiB, 1).empty());
}

}  // namespace
}  // namespace shardweld::formats
