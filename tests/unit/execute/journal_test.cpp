// The journal's reader meets files that anybody may have changed.
#include "execute/journal.hpp"

#include <fstream>
#include <random>

#include <sys/stat.h>

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/error_text.hpp"
#include "support/small_targets.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {

bool operator==(const DoneBlock& a, const DoneBlock& b) {
    return a.number == b.number && a.tensor == b.tensor && a.digest == b.digest;
}

void PrintTo(const DoneBlock& block, std::ostream* out) {
    *out << block.tensor << "/" << block.number;
}

namespace {

using test::small_plan;
using test::TemporaryDirectory;
using Blocks = std::vector<DoneBlock>;

DoneBlock block(std::uint32_t tensor, Index number, int digest = 0) {
    DoneBlock made;
    made.tensor = tensor;
    made.number = number;
    made.digest.fill(static_cast<std::byte>(digest));
    return made;
}

void write(const fs::path& journal, Index session, int rank, const Blocks& blocks) {
    Journal(journal, session, rank, false).append(blocks);
}

void change(const fs::path& path, std::size_t at, char byte) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
}

TEST(Journal, is_not_begun_in_another_directory_of_its_name) {
    const TemporaryDirectory place;
    const fs::path path = place.path() / "partial" / "journal";
    fs::create_directories(path);
    Journal journal(path, 1, 3, false);
    fs::remove_all(path.parent_path());
    fs::create_directories(path);
    EXPECT_EQ(test::error_text([&] { journal.append(Blocks{block(1, 0)}); }).substr(0, 8),
              "target: ");
    EXPECT_TRUE(fs::is_empty(path));
}

TEST(Journal, begins_when_its_directory_is_there) {
    const TemporaryDirectory place;
    const fs::path path = place.path() / "journal";
    Journal journal(path, 1, 0, false);
    EXPECT_FALSE(journal.is_begun());
    fs::create_directory(path);
    EXPECT_TRUE(journal.is_begun());
    journal.append(Blocks{block(0, 1)});
    EXPECT_EQ(read_journal(path, small_plan()).blocks, Blocks{block(0, 1)});
}

TEST(BlockPlaces, know_where_blocks_lie) {
    const plan::Plan plan = small_plan();
    const BlockPlaces places(plan);
    EXPECT_EQ(places.count(), 5U);
    EXPECT_EQ(places.range(block(1, 0)), (plan::OutputRange{0, 12}));
    EXPECT_EQ(places.range(block(0, 0)), (plan::OutputRange{12, 12 + kMiB}));
    EXPECT_EQ(places.range(block(0, 2)), (plan::OutputRange{12 + 2 * kMiB, 12 + 5 * kMiB / 2}));
    EXPECT_EQ(places.slice(block(0, 2)).begin, kMiB);
    EXPECT_EQ(places.slice(block(0, 2)).end, 5 * kMiB / 4);
    EXPECT_EQ(places.ranges(Blocks{block(0, 2), block(2, 0), block(1, 0)}),
              (std::vector<plan::OutputRange>{{0, 12}, {12 + 2 * kMiB, 12 + 7 * kMiB / 2}}));
    for (const DoneBlock& none : {block(0, 3), block(1, 1), block(3, 0), block(0, -1),
                                  block(~0U, 0), block(0, Index{1} << 62U)}) {
        EXPECT_FALSE(places.has(none));
    }
}

TEST(Journal, gives_back_what_all_ranks_wrote_in_the_order_of_the_line) {
    const TemporaryDirectory place;
    const plan::Plan plan = small_plan();
    write(place.path(), 1, 0, {block(0, 1, 1), block(1, 0, 2)});
    write(place.path(), 1, 7, {block(2, 0, 3)});
    Journal later(place.path(), 12, 3, true);
    later.append(Blocks{block(0, 0, 4)});
    later.append({});
    later.append(Blocks{block(0, 2, 5)});
    const JournalRead read = read_journal(place.path(), plan);
    EXPECT_EQ(read.blocks, (Blocks{block(1, 0, 2), block(0, 0, 4), block(0, 1, 1), block(0, 2, 5),
                                   block(2, 0, 3)}));
    EXPECT_EQ(read.n_unreadable, 0);
    EXPECT_EQ(read.last_session, 12);
    EXPECT_EQ(fs::file_size(place.path() / "12-3"), 80U);
}

TEST(Journal, gives_back_the_sums_of_input) {
    const TemporaryDirectory place;
    const RangeSum large{Bytes{1} << 40U, (Bytes{1} << 40U) + 7, ~0U, 0xFEDCBA98U};
    Journal journal(place.path(), 1, 0, false);
    journal.append({}, std::vector<RangeSum>{{0, 5, 3, 9}});
    journal.append(Blocks{block(0, 1)}, std::vector<RangeSum>{large});
    JournalRead read = read_journal(place.path(), small_plan());
    EXPECT_EQ(read.sums, (std::vector<RangeSum>{{0, 5, 3, 9}, large}));
    EXPECT_EQ(read.blocks, Blocks{block(0, 1)});
    change(place.path() / "1-0", 45, 'x');
    read = read_journal(place.path(), small_plan());
    EXPECT_EQ(read.sums.size(), 1U);
    EXPECT_EQ(read.n_unreadable, 1);
}

TEST(Journal, tells_what_was_read_back_and_not_written_since) {
    const TemporaryDirectory journal;
    const plan::Plan plan = small_plan();
    write(journal.path(), 1, 0, {block(0, 0), block(0, 1)});
    const SeenBlock remarkable{0, 0, {kMiB / 2, 3, 2, 1, 0x1234, false, true}};
    Journal(journal.path(), 2, 0, false)
        .append({}, {}, std::vector<SeenBlock>{{1, 0, {}}, remarkable, {0, 2, {}}});
    write(journal.path(), 3, 0, {block(0, 1)});
    const JournalRead read = read_journal(journal.path(), plan);
    EXPECT_EQ(read.blocks, (Blocks{block(0, 0), block(0, 1)}));
    ASSERT_EQ(read.seen.size(), 1U) << "another was written again, of a third no block is known";
    EXPECT_EQ(read.seen[0].tensor, 0U);
    EXPECT_EQ(read.seen[0].number, 0);
    EXPECT_EQ(read.seen[0].census, remarkable.census);
}

TEST(Journal, believes_the_latest_session) {
    const TemporaryDirectory place;
    write(place.path(), 2, 0, {block(0, 1, 22)});
    write(place.path(), 10, 0, {block(0, 1, 10)});
    write(place.path(), 9, 0, {block(0, 1, 9)});
    EXPECT_EQ(read_journal(place.path(), small_plan()).blocks, (Blocks{block(0, 1, 10)}));
}

TEST(Journal, makes_no_file_without_blocks_and_never_appends_to_another_runs) {
    const TemporaryDirectory place;
    write(place.path(), 1, 0, {});
    EXPECT_TRUE(fs::is_empty(place.path()));
    write(place.path(), 1, 0, {block(0, 0)});
    EXPECT_THROW(write(place.path(), 1, 0, {block(0, 1)}), Error);
}

TEST(Journal, leaves_out_what_was_not_written_whole) {
    const TemporaryDirectory place;
    const plan::Plan plan = small_plan();
    write(place.path(), 1, 0, {block(0, 0), block(0, 1), block(0, 2)});
    const fs::path path = place.path() / "1-0";
    for (std::size_t cut = 1; cut < 40; ++cut) {
        fs::resize_file(path, 120 - cut);
        const JournalRead read = read_journal(place.path(), plan);
        EXPECT_EQ(read.blocks, (Blocks{block(0, 0), block(0, 1)})) << cut;
        EXPECT_EQ(read.n_unreadable, 1);
    }
    // A page that never reached the disk, with a record behind it.
    fs::resize_file(path, 120);
    for (std::size_t at = 40; at < 80; ++at) {
        change(path, at, 0);
    }
    EXPECT_EQ(read_journal(place.path(), plan).blocks, (Blocks{block(0, 0)}));
}

TEST(Journal, believes_no_record_in_which_a_byte_changed) {
    const TemporaryDirectory place;
    const plan::Plan plan = small_plan();
    for (std::size_t at = 0; at < 40; ++at) {
        fs::remove(place.path() / "1-0");
        write(place.path(), 1, 0, {block(0, 0, 1), block(2, 0, 2)});
        change(place.path() / "1-0", at, 77);
        const JournalRead read = read_journal(place.path(), plan);
        EXPECT_EQ(read.blocks, (Blocks{block(2, 0, 2)})) << at;
        EXPECT_EQ(read.n_unreadable, 1) << at;
    }
}

TEST(Journal, leaves_out_blocks_that_the_plan_does_not_have) {
    const TemporaryDirectory place;
    write(place.path(), 1, 0,
          {block(0, 3), block(99, 0), block(~0U, 0), block(0, -1), block(0, Index{1} << 62U),
           block(1, 0)});
    const JournalRead read = read_journal(place.path(), small_plan());
    EXPECT_EQ(read.blocks, (Blocks{block(1, 0)}));
    EXPECT_EQ(read.n_unreadable, 5);
}

TEST(Journal, reads_any_bytes_and_names) {
    const TemporaryDirectory place;
    const plan::Plan plan = small_plan();
    std::mt19937 random(3);  // NOLINT(cert-msc51-cpp): the same cases every time
    std::ofstream noise(place.path() / "3-1", std::ios::binary);
    for (int i = 0; i < 1'000'003; ++i) {
        noise.put(static_cast<char>(random()));
    }
    noise.close();
    for (const char* name : {"header.json", "1", "-", "1-", "-1", "x-1", "1-2-3", "0-0",
                             "99999999999999999999-1", "9223372036854775807-1", "1-0.tmp"}) {
        write(place.path(), 1, 0, {block(0, 0)});
        fs::rename(place.path() / "1-0", place.path() / name);
    }
    const JournalRead read = read_journal(place.path(), plan);
    EXPECT_EQ(read.blocks, Blocks{});
    EXPECT_EQ(read.last_session, 3);
    EXPECT_EQ(read.n_unreadable, 1'000'003 / 40 + 1);
}

TEST(Journal, does_not_wait_for_what_is_no_file) {
    const TemporaryDirectory place;
    ASSERT_EQ(::mkfifo((place.path() / "1-0").c_str(), 0600), 0);
    EXPECT_THROW((void)read_journal(place.path(), small_plan()), Error);
    EXPECT_THROW((void)read_journal(place.path() / "none", small_plan()), Error);
}

}  // namespace
}  // namespace shardweld::execute
