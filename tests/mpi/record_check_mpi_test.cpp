// Records that ranks read for a merge: whatever part each has read, one changed bit is found by
// all.
#include <fstream>

#include <gtest/gtest.h>

#include "core/codec.hpp"
#include "core/crc32.hpp"
#include "core/shared_text.hpp"
#include "execute/record_check.hpp"
#include "mpi/comm.hpp"
#include "plan/plan.hpp"
#include "support/flat_target.hpp"

#include "sample.hpp"
#include "world.hpp"

namespace shardweld {
namespace {

using test::fill;
using test::kWays;
using test::Sample;

/// Every piece is a record of its own.
catalogue::Records records_of(Sample& sample) {
    catalogue::Records records;
    for (const plan::Target& target : sample.targets()) {
        for (const plan::Operand& operand : target.operands) {
            const Bytes bytes = static_cast<Bytes>(operand.copy.volume()) * 2;
            const auto file = std::as_bytes(std::span(sample.data()[operand.file]));
            records.all.push_back({operand.file, crc32(file.subspan(operand.base, bytes)),
                                   operand.base, bytes,
                                   static_cast<std::uint32_t>(records.tensors.size())});
        }
        records.tensors.push_back(SharedText(target.name));
    }
    std::sort(records.all.begin(), records.all.end(), [](const auto& a, const auto& b) {
        return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
    });
    catalogue::index_files(records);
    return records;
}

std::shared_ptr<execute::RecordSums> sums_of(Sample& sample) {
    const catalogue::Records records = records_of(sample);
    auto sums = std::make_shared<execute::RecordSums>(
        records, [](const catalogue::StorageRecord&, std::string_view tensor) {
            return execute::RecordSums::RecordName{"the record of " + std::string(tensor)};
        });
    sums->use_records_of(sample.targets());
    return sums;
}

/// What checking finds behind a run of the plan.
execute::RecordCounts counts_of(const Sample& sample, const plan::Plan& plan,
                                const std::shared_ptr<execute::RecordSums>& sums) {
    mpi::Comm& comm = mpi::world();
    execute::SourceFiles source{sample.directory(), &sample.files(), 2};
    source.sums = sums;
    execute::RunOptions options;
    options.write = false;
    (void)execute::run(comm, plan, source, std::filesystem::path(), options);
    return execute::check_records(comm, *sums, source, plan.visibility);
}

plan::Plan plan_of(const Sample& sample, const test::Way& way, std::vector<plan::Target> targets) {
    plan::JobPlan choice;
    choice.strategy = way.strategy;
    choice.read_ahead = way.is_ahead;
    choice.memory_limit = Bytes{1} << 20U;
    return plan::make_plan(std::move(targets), sample.files(),
                           plan::Visibility::everywhere(mpi::world().size(), sample.files().size()),
                           choice);
}

/// Flips a bit of a file; again: as it was.
void flip(const Sample& sample, std::uint32_t file, Bytes at) {
    mpi::world().barrier();
    if (mpi::world().rank() == 0) {
        std::fstream stream(sample.directory() / sample.files()[file].path,
                            std::ios::in | std::ios::out | std::ios::binary);
        stream.seekg(static_cast<std::streamoff>(at));
        const auto byte = static_cast<char>(stream.get() ^ 16);
        stream.seekp(static_cast<std::streamoff>(at));
        stream.put(byte);
    }
    mpi::world().barrier();
}

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return (error.code() == ErrorCode::corrupt ? "corrupt: " : "other: ") + error.full_text();
    }
    return "";
}

TEST(RecordCheck, proves_all_records_of_a_merge) {
    Sample sample(mpi::world());
    fill(sample);
    for (const test::Way& way : kWays) {
        const auto sums = sums_of(sample);
        const auto counts = counts_of(sample, plan_of(sample, way, sample.targets()), sums);
        EXPECT_EQ(counts.checked, static_cast<Index>(sums->records().all.size()));
        EXPECT_EQ(counts.unchecked, 0);
        // Only what several ranks have read: a window reaches over rows of others.
        EXPECT_LT(counts.bytes_read, 60'000U);
    }
}

TEST(RecordCheck, finds_a_flipped_bit_of_each_record_on_all_ranks) {
    Sample sample(mpi::world());
    fill(sample);
    const catalogue::Records records = records_of(sample);
    for (std::size_t i = 0; i < records.all.size(); ++i) {
        const catalogue::StorageRecord& record = records.all[i];
        const test::Way& way = kWays[i % kWays.size()];
        const Bytes at = record.offset + i * 7919 % record.bytes;
        flip(sample, record.file, at);
        const std::string text = error_of([&] {
            (void)counts_of(sample, plan_of(sample, way, sample.targets()), sums_of(sample));
        });
        EXPECT_TRUE(text.starts_with("corrupt: ")) << text;
        EXPECT_NE(text.find("the record of " + std::string(records.tensors[record.tensor]) +
                            " has the CRC-32 "),
                  std::string::npos)
            << text;
        flip(sample, record.file, at);
    }
}

TEST(RecordCheck, reads_what_a_merge_needs_in_part_only_where_that_costs_little) {
    Sample sample(mpi::world());
    fill(sample);
    const plan::Operand whole = sample.targets().front().operands.front();
    const Bytes bytes = static_cast<Bytes>(whole.copy.volume()) * 2;
    const plan::Target part =
        test::flat_target("part", DType::bf16, 100, whole.file, whole.base + 40);
    const auto sums = std::make_shared<execute::RecordSums>(records_of(sample), nullptr);
    sums->use_records_of({part});
    const auto counts = counts_of(sample, plan_of(sample, kWays[0], {part}), sums);
    EXPECT_EQ(counts.checked, 1);
    EXPECT_EQ(counts.checked_bytes, bytes);
    EXPECT_EQ(counts.bytes_read, bytes - 200);
}

TEST(RecordCheck, says_what_it_leaves_unchecked) {
    Sample sample(mpi::world());
    fill(sample);
    const plan::Operand whole = sample.targets().front().operands.front();
    // No file is so long: it must not be read.
    const Bytes bytes = Bytes{100} << 20U;
    catalogue::Records records;
    records.all = {{whole.file, 7, whole.base, bytes, 0}};
    catalogue::index_files(records);
    const auto sums = std::make_shared<execute::RecordSums>(records, nullptr);
    sums->use_records_of({sample.targets().front()});
    const auto counts =
        counts_of(sample, plan_of(sample, kWays[0], {sample.targets().front()}), sums);
    EXPECT_EQ(counts.checked, 0);
    EXPECT_EQ(counts.unchecked, 1);
    EXPECT_EQ(counts.unchecked_bytes, bytes);
    EXPECT_EQ(counts.bytes_read, 0U);
}

TEST(RecordCheck, reads_all_where_nothing_was_read) {
    Sample sample(mpi::world());
    fill(sample);
    const auto sums = sums_of(sample);
    const execute::SourceFiles source{sample.directory(), &sample.files(), 2};
    const auto visibility =
        plan::Visibility::everywhere(mpi::world().size(), sample.files().size());
    const auto check = [&] {
        return execute::check_records(mpi::world(), *sums, source, visibility,
                                      execute::Completion::all);
    };
    Bytes all = 0;
    for (const catalogue::StorageRecord& record : sums->records().all) {
        all += record.bytes;
    }
    EXPECT_EQ(check().bytes_read, all);
    flip(sample, 1, 100);
    EXPECT_TRUE(error_of(check).starts_with("corrupt: "));
}

TEST(RecordCheck, knows_what_an_earlier_run_has_read) {
    Sample sample(mpi::world());
    fill(sample);
    const auto before = sums_of(sample);
    (void)counts_of(sample, plan_of(sample, kWays[0], sample.targets()), before);
    const auto told = before->all();
    const auto now = sums_of(sample);
    // As a journal has them: all ranks' on the first.
    ByteWriter out;
    out.put(told);
    for (const auto& bytes : mpi::world().all_gather(out.take())) {
        if (mpi::world().rank() == 0) {
            now->add_earlier(ByteReader(bytes).get<std::vector<execute::RangeSum>>());
        }
    }
    const execute::SourceFiles source{sample.directory(), &sample.files(), 2};
    const auto visibility =
        plan::Visibility::everywhere(mpi::world().size(), sample.files().size());
    const auto counts = execute::check_records(mpi::world(), *now, source, visibility);
    EXPECT_EQ(counts.checked, static_cast<Index>(now->records().all.size()));
    EXPECT_LT(counts.bytes_read, 60'000U);
}

}  // namespace
}  // namespace shardweld
