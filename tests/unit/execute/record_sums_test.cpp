// Records read in any order, by pieces that overlap, by one reader or by several.
#include "execute/record_sums.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "core/crc32.hpp"
#include "execute/joined_sums.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"

namespace shardweld::execute {

void PrintTo(const RecordStretch& stretch, std::ostream* out) {
    *out << "[" << stretch.begin << ", " << stretch.end << ")";
}

namespace {

using Bytestring = std::vector<std::byte>;

Bytestring noise(std::size_t size, unsigned seed) {
    std::mt19937 random(seed);
    Bytestring bytes(size);
    for (std::byte& byte : bytes) {
        byte = static_cast<std::byte>(random());
    }
    return bytes;
}

RangeSum range(const Bytestring& bytes, Bytes begin, Bytes end) {
    return {begin, end, 0, crc32(std::span(bytes).subspan(begin, end - begin))};
}

/// Two records of one file, at 100 and 1200, and one without a checksum at 3000.
std::unique_ptr<RecordSums> two_records(const Bytestring& file) {
    const auto sum_of = [&](Bytes at, Bytes size) {
        return crc32(std::span(file).subspan(at, size));
    };
    catalogue::Records records;
    records.all = {{0, sum_of(100, 1000), 100, 1000, 0},
                   {0, sum_of(1200, 1500), 1200, 1500, 0},
                   {0, 0, 3000, 100, 0}};
    records.tensors.emplace_back("w");
    catalogue::index_files(records);
    auto sums = std::make_unique<RecordSums>(
        std::move(records), [](const catalogue::StorageRecord& record, std::string_view tensor) {
            return RecordSums::RecordName{"the record of " + std::string(tensor) + " at " +
                                          std::to_string(record.offset)};
        });
    sums->want_all();
    return sums;
}

/// Reads parts of the file until all of it was read.
void read_all(RecordSums& sums, const Bytestring& file, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<bool> is_read(file.size(), false);
    while (std::find(is_read.begin(), is_read.end(), false) != is_read.end()) {
        const std::size_t begin = random() % file.size();
        const std::size_t size = 1 + random() % std::min<std::size_t>(700, file.size() - begin);
        sums.add(0, begin, std::span(file).subspan(begin, size));
        std::fill_n(is_read.begin() + static_cast<std::ptrdiff_t>(begin), size, true);
    }
}

TEST(RecordSums, of_whole_records_are_those_of_their_bytes_in_whatever_order_they_are_read) {
    const Bytestring file = noise(4000, 1);
    for (unsigned seed = 0; seed < 200; ++seed) {
        const auto made = two_records(file);
        RecordSums& sums = *made;
        read_all(sums, file, seed);
        EXPECT_EQ(sums.all(), (std::vector<RangeSum>{{0, 1000, 0, sums.records().all[0].crc32},
                                                     {0, 1500, 1, sums.records().all[1].crc32}}))
            << "seed " << seed;
        EXPECT_EQ(sums.bytes(), 2500U);
    }
}

TEST(RecordSums, of_threads_that_read_the_same_bytes_are_those_of_one) {
    const Bytestring file = noise(4000, 2);
    for (unsigned seed = 0; seed < 50; ++seed) {
        const auto made = two_records(file);
        RecordSums& sums = *made;
        {
            std::vector<std::jthread> threads;
            for (unsigned i = 0; i < 4; ++i) {
                threads.emplace_back([&, i] { read_all(sums, file, 4 * seed + i); });
            }
        }
        EXPECT_EQ(sums.all(), (std::vector<RangeSum>{{0, 1000, 0, sums.records().all[0].crc32},
                                                     {0, 1500, 1, sums.records().all[1].crc32}}))
            << "seed " << seed;
        EXPECT_EQ(sums.bytes(), 2500U);
    }
}

TEST(RecordSums, refuse_a_record_with_any_bit_flipped_when_it_is_whole) {
    const Bytestring file = noise(4000, 1);
    for (unsigned seed = 0; seed < 200; ++seed) {
        const auto made = two_records(file);
        RecordSums& sums = *made;
        Bytestring changed = file;
        const std::size_t at = (seed % 2 == 0 ? 100 : 1200) + seed * 37 % 1000;
        changed[at] ^= std::byte{1} << (seed % 8);
        const std::string text = test::error_text([&] { read_all(sums, changed, seed); });
        EXPECT_TRUE(text.starts_with(seed % 2 == 0
                                         ? "corrupt: the record of w at 100 has the CRC-32 "
                                         : "corrupt: the record of w at 1200 has the CRC-32 "))
            << "seed " << seed << ": " << text;
    }
}

TEST(RecordSums, tell_parts_and_each_change_once) {
    const Bytestring file = noise(4000, 1);
    const auto made = two_records(file);
    RecordSums& sums = *made;
    sums.add(0, 0, std::span(file).first(200));
    sums.add(0, 300, std::span(file).subspan(300, 50));
    const std::vector<RangeSum> parts{{0, 100, 0, crc32(std::span(file).subspan(100, 100))},
                                      {200, 250, 0, crc32(std::span(file).subspan(300, 50))}};
    EXPECT_EQ(sums.all(), parts);
    EXPECT_EQ(sums.take_new(), parts);
    EXPECT_TRUE(sums.take_new().empty());
    sums.add(0, 310, std::span(file).subspan(310, 60));
    EXPECT_EQ(sums.take_new(),
              (std::vector<RangeSum>{{200, 270, 0, crc32(std::span(file).subspan(300, 70))}}));
}

TEST(RecordSums, pass_over_what_nobody_wants_and_what_cannot_be_true) {
    const Bytestring file = noise(4000, 1);
    const auto made = two_records(file);
    const RecordSums& all = *made;
    EXPECT_EQ(all.n_without(), 1);
    EXPECT_FALSE(all.is_due(2));
    RecordSums sums(all.records(), {});
    plan::Target target = test::flat_target("t", DType::bf16, 100, 0, 1200);
    target.replicas.push_back({0, 100, target.operands.front().copy});
    sums.use_records_of({target});
    EXPECT_TRUE(sums.is_due(1));
    EXPECT_FALSE(sums.is_due(0));
    sums.add_earlier(
        std::vector<RangeSum>{{0, 10, 7, 1}, {10, 10, 1, 1}, {0, 1501, 1, 1}, {5, 1500, 1, 1}});
    EXPECT_EQ(sums.all(), (std::vector<RangeSum>{{5, 1500, 1, 1}}));
    // What an earlier run wrote down as it got on.
    sums.add_earlier(std::vector<RangeSum>{{0, 100, 1, 2}, {50, 90, 1, 3}, {0, 30, 1, 4}});
    EXPECT_EQ(sums.all(), (std::vector<RangeSum>{{0, 100, 1, 2}, {5, 1500, 1, 1}}));
}

TEST(JoinedSums, need_only_what_ties_ranges_together) {
    const Bytestring bytes = noise(300, 2);
    const auto missing_of = [&](const std::vector<RecordStretch>& known) {
        std::vector<RangeSum> sums;
        for (const RecordStretch& one : known) {
            sums.push_back(range(bytes, one.begin, one.end));
        }
        return missing(300, sums);
    };
    using Stretches = std::vector<RecordStretch>;
    EXPECT_EQ(missing_of({}), (Stretches{{0, 300}}));
    EXPECT_EQ(missing_of({{0, 300}}), Stretches{});
    EXPECT_EQ(missing_of({{100, 300}, {0, 100}}), Stretches{});
    EXPECT_EQ(missing_of({{0, 100}, {120, 300}}), (Stretches{{100, 120}}));
    // What both have read is known twice, not apart.
    EXPECT_EQ(missing_of({{0, 110}, {90, 300}}), (Stretches{{90, 110}}));
    EXPECT_EQ(missing_of({{0, 295}, {10, 300}}), (Stretches{{0, 10}, {295, 300}}));
    EXPECT_EQ(missing_of({{0, 300}, {20, 280}}), (Stretches{{0, 20}, {280, 300}}));
    EXPECT_EQ(missing_of({{100, 200}}), (Stretches{{0, 100}, {200, 300}}));
}

TEST(JoinedSums, tell_the_whole_and_every_flipped_bit_of_any_reader) {
    const Bytestring bytes = noise(500, 3);
    std::mt19937 random(11);
    for (int round = 0; round < 500; ++round) {
        std::vector<RangeSum> known;
        for (std::size_t i = random() % 6; i > 0; --i) {
            const Bytes begin = random() % 499;
            known.push_back(range(bytes, begin, begin + 1 + random() % (500 - begin)));
        }
        for (const RecordStretch& one : missing(500, known)) {
            known.push_back(range(bytes, one.begin, one.end));
        }
        EXPECT_TRUE(missing(500, known).empty());
        JoinedSums joined = join(500, known);
        ASSERT_TRUE(joined.crc32 && joined.is_consistent) << "round " << round;
        EXPECT_EQ(*joined.crc32, crc32(bytes)) << "round " << round;
        known[random() % known.size()].crc32 ^= 1U << (random() % 32);
        joined = join(500, known);
        EXPECT_FALSE(joined.is_consistent && joined.crc32 == crc32(bytes)) << "round " << round;
    }
}

}  // namespace
}  // namespace shardweld::execute
