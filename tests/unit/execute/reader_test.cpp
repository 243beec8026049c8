// What the reader brings into place, whatever lies between the elements and however small its
// memory is, and what it says of files that are not what they were.
#include "execute/reader.hpp"

#include <fstream>
#include <numeric>

#include <gtest/gtest.h>

#include "plan/schedule/reading.hpp"
#include "support/error_text.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

using layout::Copy;
using plan::kLongRun;
using plan::kSmallGap;

/// Two files of bytes that are different everywhere within 251.
class ReaderTest : public testing::Test {
  protected:
    static constexpr std::size_t kSize = 600'000;

    ReaderTest() {
        for (const catalogue::File& file : files) {
            place.put(file.path, text_of(static_cast<std::size_t>(file.size)));
        }
    }
    static std::string text_of(std::size_t n) {
        std::string text(n, '\0');
        for (std::size_t i = 0; i < n; ++i) {
            text[i] = static_cast<char>(i % 251);
        }
        return text;
    }
    static Copy copy_of(std::initializer_list<layout::Loop> loops, Index from = 0, Index to = 0) {
        Copy copy;
        copy.src_offset = from;
        copy.dst_offset = to;
        copy.loops = loops;
        return copy;
    }
    /// What a copy of elements of `width` bytes makes of a file's text.
    static std::vector<std::byte> expected(const Copy& copy, std::uint32_t width, Bytes base,
                                           std::size_t size) {
        const std::string text = text_of(kSize);
        std::vector<std::byte> out(size);
        layout::run(copy, width, std::as_bytes(std::span(text)).subspan(base), out);
        return out;
    }

    test::TemporaryDirectory place;
    std::vector<catalogue::File> files = {{"a", kSize}, {"b", kSize}};
    SourceFiles source{place.path(), &files};
};

TEST_F(ReaderTest, puts_runs_of_all_lengths_into_place) {
    for (const Index run : {Index{1}, Index{7}, static_cast<Index>(kLongRun) - 1,
                            static_cast<Index>(kLongRun), static_cast<Index>(kLongRun) + 1}) {
        const Copy copy = copy_of({{4, run + 3, run}, {run, 1, 1}}, 5, 2);
        std::vector<std::byte> out(static_cast<std::size_t>(4 * run) + 2);
        Reader reader(source, 200'000);
        reader.read({{1, 11, 1, copy, out, nullptr}});
        EXPECT_EQ(out, expected(copy, 1, 11, out.size())) << run;
        // Long runs alone; short ones with what lies between them, in one read.
        const Bytes gaps = run < static_cast<Index>(kLongRun) ? 9 : 0;
        EXPECT_EQ(reader.bytes_read(), static_cast<Bytes>(4 * run) + gaps) << run;
    }
}

TEST_F(ReaderTest, reads_over_small_gaps_only) {
    for (const Index gap : {static_cast<Index>(kSmallGap), static_cast<Index>(kSmallGap) + 1}) {
        const Copy copy = copy_of({{3, gap + 10, 10}, {10, 1, 1}});
        std::vector<std::byte> out(30);
        Reader reader(source, 300'000);
        reader.read({{0, 0, 1, copy, out, nullptr}});
        EXPECT_EQ(out, expected(copy, 1, 0, 30));
        EXPECT_EQ(reader.bytes_read(),
                  gap > static_cast<Index>(kSmallGap) ? 30U : 30U + static_cast<Bytes>(2 * gap));
    }
}

TEST_F(ReaderTest, transposes_within_any_memory) {
    const Copy copy = copy_of({{150, 1, 200}, {200, 150, 1}});
    const auto wanted = expected(copy, 4, 32, 150 * 200 * 4);
    for (const Bytes scratch : {Bytes{16}, Bytes{1000}, Bytes{4096}, Bytes{65'536}, kMiB}) {
        std::vector<std::byte> out(wanted.size());
        Reader reader(source, scratch);
        reader.read({{0, 32, 4, copy, out, nullptr}});
        EXPECT_EQ(out, wanted) << scratch;
        EXPECT_LE(reader.buffer_bytes(), scratch);
    }
}

TEST_F(ReaderTest, takes_moves_of_two_files_in_any_order_with_shared_reads) {
    std::vector<std::byte> out(40);
    const auto part = [&](std::size_t at) { return std::span(out).subspan(at, 10); };
    const Copy ten = copy_of({{10, 1, 1}});
    Reader reader(source, 4096);
    reader.read({{1, 50, 1, ten, part(30), nullptr},
                 {0, 20, 1, ten, part(10), nullptr},
                 {1, 0, 1, ten, part(20), nullptr},
                 {0, 0, 1, ten, part(0), nullptr}});
    for (const auto& [at, from] : {std::pair(0U, 0), {10U, 20}, {20U, 0}, {30U, 50}}) {
        EXPECT_EQ(out[at], static_cast<std::byte>(from));
        EXPECT_EQ(out[at + 9], static_cast<std::byte>(from + 9));
    }
    EXPECT_EQ(reader.bytes_read(), 30U + 60U);  // two reads, gaps included
}

TEST_F(ReaderTest, counts_what_differs_instead_of_copying) {
    const Copy copy = copy_of({{100'000, 1, 1}});
    std::vector<std::byte> same = expected(copy, 2, 0, 200'000);
    Index n_different = 3;
    Reader reader(source, 4096);
    reader.read({{0, 0, 2, copy, same, &n_different, {DType::i16, DType::i16}}});
    EXPECT_EQ(n_different, 3);
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{199'999}}) {
        same[at] ^= std::byte{1};
    }
    const auto before = same;
    reader.read({{0, 0, 2, copy, same, &n_different, {DType::i16, DType::i16}}});
    EXPECT_EQ(n_different, 3 + 2);  // two bytes of one element count once
    EXPECT_EQ(same, before);
}

TEST_F(ReaderTest, refuses_files_that_are_shorter_than_said_or_changed_meanwhile) {
    const Copy ten = copy_of({{10, 1, 1}});
    std::vector<std::byte> out(10);
    files[1].size = kSize + 1;
    Reader reader(source, 4096);
    EXPECT_NE(test::error_text([&] { reader.read({{1, 0, 1, ten, out, nullptr}}); }), "no error");
    reader.read({{0, 0, 1, ten, out, nullptr}});
    fs::resize_file(place.path() / "a", 100);
    EXPECT_NE(test::error_text([&] {
                  reader.read({{0, 500'000, 1, ten, out, nullptr}});
              }).find((place.path() / "a").string()),
              std::string::npos);
    EXPECT_EQ(test::error_text([&] { reader.finish(); }).substr(0, 4), "io: ");
}

TEST_F(ReaderTest, keeps_few_files_open) {
    source.max_open = 1;
    std::vector<std::string> opened;
    source.on_open = [&](const fs::path& path) { opened.push_back(path.filename().string()); };
    const Copy ten = copy_of({{10, 1, 1}});
    std::vector<std::byte> out(10);
    Reader reader(source, 4096);
    for (const std::uint32_t file : {0U, 1U, 1U, 0U}) {
        reader.read({{file, 0, 1, ten, out, nullptr}});
    }
    EXPECT_EQ(opened, (std::vector<std::string>{"a", "b", "a"}));
    EXPECT_NO_THROW(reader.finish());
}

}  // namespace
}  // namespace shardweld::execute
