// Files end to end: shares that tile all bytes, parts that tile a share.
#include "concatenated_files.hpp"

#include <gtest/gtest.h>

namespace shardweld::bench {
namespace {

TEST(ConcatenatedFiles, makes_files_of_at_most_the_size_asked_for) {
    const ConcatenatedFiles files = ConcatenatedFiles::make("d", 25, 10);
    ASSERT_EQ(files.files().size(), 3U);
    EXPECT_EQ(files.files()[0].path, "d/0");
    EXPECT_EQ(files.files()[2].path, "d/2");
    EXPECT_EQ(files.files()[1].size, 10U);
    EXPECT_EQ(files.files()[2].size, 5U);
    EXPECT_EQ(files.size(), 25U);
    EXPECT_TRUE(ConcatenatedFiles().empty());
}

/// Files with sizes at, below and above pages, and empty files among them.
std::vector<ConcatenatedFiles> examples() {
    return {ConcatenatedFiles({{"a", 1}}),
            ConcatenatedFiles({{"a", 0}, {"b", 100'000}, {"c", 0}, {"d", 4096}, {"e", 12'289}}),
            ConcatenatedFiles({{"a", 4095}, {"b", 1}, {"c", 1'000'000}, {"d", 3}}),
            ConcatenatedFiles::make("d", 20'000'001, 7'000'000)};
}

TEST(ConcatenatedFiles, shares_tile_all_bytes_and_begin_at_pages) {
    for (const ConcatenatedFiles& files : examples()) {
        for (const int n_ranks : {1, 2, 3, 7, 64}) {
            Bytes at = 0;
            for (int rank = 0; rank < n_ranks; ++rank) {
                const ByteRange mine = files.share(rank, n_ranks);
                ASSERT_EQ(mine.begin, at);
                ASSERT_LE(mine.begin, mine.end);
                EXPECT_LT(mine.end - mine.begin, files.size() / static_cast<Bytes>(n_ranks) + 4098);
                at = mine.end;
                if (mine.begin < mine.end) {
                    EXPECT_EQ(files.parts(mine, 1U << 20U).front().offset % 4096, 0U);
                }
            }
            EXPECT_EQ(at, files.size());
        }
    }
}

TEST(ConcatenatedFiles, parts_end_at_multiples_of_the_extent_in_their_file) {
    for (const ConcatenatedFiles& files : examples()) {
        for (const Bytes extent : {Bytes{1000}, Bytes{4096}, Bytes{1} << 20U}) {
            const ByteRange stretch{files.size() / 3, files.size()};
            Bytes at = stretch.begin;
            for (const FilePart& part : files.parts(stretch, extent)) {
                ASSERT_EQ(part.position, at);
                ASSERT_GT(part.size, 0U);
                ASSERT_LE(part.size, extent);
                const Bytes end = part.offset + part.size;
                ASSERT_LE(end, files.files()[part.file].size);
                EXPECT_TRUE(end % extent == 0 || end == files.files()[part.file].size);
                at += part.size;
            }
            EXPECT_EQ(at, stretch.end);
        }
    }
    EXPECT_EQ(ConcatenatedFiles({{"a", 10}, {"b", 0}, {"c", 5}}).parts({8, 12}, 100),
              (std::vector<FilePart>{{0, 8, 2, 8}, {2, 0, 2, 10}}));
}

}  // namespace
}  // namespace shardweld::bench
