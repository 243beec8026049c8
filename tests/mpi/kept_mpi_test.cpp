// What a run that fails leaves, and that one which misses bytes fails: with real files at every
// number of ranks.
#include <cstring>
#include <fstream>
#include <optional>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "core/error_of.hpp"
#include "execute/run.hpp"
#include "mpi/comm.hpp"
#include "plan/plan.hpp"

#include "sample.hpp"
#include "world.hpp"

namespace shardweld {
namespace {

namespace fs = std::filesystem;
using test::fill;
using test::kWays;
using test::Sample;
using test::Way;

/// With a journal in the sample's directory; files are made anew unless there are blocks.
void run_with_journal(mpi::Comm& comm, const Sample& sample, plan::Plan& plan,
                      execute::RunOptions options) {
    const fs::path out = sample.directory() / "out";
    auto& blocks = options.resumption.blocks;
    if (comm.rank() == 0 && blocks.empty()) {
        fs::remove_all(out);
        fs::create_directories(out / "journal");
    }
    comm.barrier();
    execute::create_files(comm, plan, out);
    options.resumption.journal = out / "journal";
    // Also a run that only reads back what is there writes down that it did.
    options.resumption.session =
        execute::read_journal(options.resumption.journal, plan).last_session + 1;
    comm.barrier();
    (void)execute::run(comm, plan, {sample.directory(), &sample.files(), 2}, out, options);
}

ErrorCode code_of(mpi::Comm& comm, const Sample& sample, plan::Plan& plan,
                  const execute::RunOptions& options) {
    const auto failure = error_of([&] { run_with_journal(comm, sample, plan, options); });
    comm.barrier();
    return failure ? failure->code() : ErrorCode::ok;
}

std::vector<execute::DoneBlock> blocks_of(const Sample& sample, const plan::Plan& plan) {
    return execute::read_journal(sample.directory() / "out" / "journal", plan).blocks;
}

/// Whether a block's bytes in the output are what the journal says.
bool is_on_disk(const Sample& sample, const plan::Plan& plan, const execute::DoneBlock& block) {
    const plan::Slice slice = execute::BlockPlaces(plan).slice(block);
    const auto& slot = plan.placement.slots[slice.tensor];
    const Bytes size = size_of(plan.tensor(slice.tensor).dtype);
    std::ifstream in(sample.directory() / "out" / plan.placement.files[slot.file].name,
                     std::ios::binary);
    in.seekg(static_cast<std::streamoff>(slot.offset + static_cast<Bytes>(slice.begin) * size));
    std::string bytes(static_cast<Bytes>(slice.end - slice.begin) * size, '\0');
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(bytes.data(), bytes.size()));
    return std::memcmp(digest.digest, block.digest.data(), block.digest.size()) == 0;
}

void expect_all_on_disk(const Sample& sample, const plan::Plan& plan,
                        const std::vector<execute::DoneBlock>& blocks) {
    for (const execute::DoneBlock& block : blocks) {
        EXPECT_TRUE(is_on_disk(sample, plan, block)) << block.tensor << "/" << block.number;
    }
}

plan::Plan plan_of(mpi::Comm& comm, const Sample& sample, const Way& way) {
    plan::JobPlan choice;
    choice.strategy = way.strategy;
    choice.read_ahead = way.is_ahead;
    choice.memory_limit = Bytes{1} << 20U;
    return plan::make_plan(sample.targets(), sample.files(),
                           plan::Visibility::everywhere(comm.size(), sample.files().size()),
                           choice);
}

TEST(Run, keeps_what_was_written_when_it_fails_elsewhere) {
    mpi::Comm& comm = mpi::world();
    for (const Way& way : kWays) {
        Sample sample(comm);
        fill(sample);
        plan::Plan plan = plan_of(comm, sample, way);
        const Bytes share = plan.cuts[1] - plan.cuts[0];
        execute::RunOptions options;
        options.on_progress = [&](Bytes done) {
            if (comm.rank() == 0 && done == share) {
                throw Error(ErrorCode::io, "after the last of its rounds");
            }
        };
        EXPECT_EQ(code_of(comm, sample, plan, options), ErrorCode::io);
        const auto blocks = blocks_of(sample, plan);
        // A small tensor and a megabyte of the large one at least.
        EXPECT_GE(blocks.size(), 2U) << plan::name_of(way.strategy);
        expect_all_on_disk(sample, plan, blocks);
        comm.barrier();
    }
}

TEST(Run, writes_nothing_down_on_a_rank_that_could_not_write) {
    mpi::Comm& comm = mpi::world();
    for (const Way& way : kWays) {
        Sample sample(comm);
        fill(sample);
        plan::Plan plan = plan_of(comm, sample, way);
        execute::RunOptions options;
        options.on_slice = [&](const plan::Slice& slice, std::span<const std::byte> bytes) {
            if (comm.rank() == 0 && slice.output_begin + bytes.size() >= plan.cuts[1]) {
                throw Error(ErrorCode::io, "in front of its last write");
            }
        };
        EXPECT_EQ(code_of(comm, sample, plan, options), ErrorCode::io);
        EXPECT_FALSE(fs::exists(sample.directory() / "out" / "journal" / "1-0"));
        expect_all_on_disk(sample, plan, blocks_of(sample, plan));
        comm.barrier();
    }
}

TEST(Run, fails_where_a_byte_is_missing_or_there_twice) {
    mpi::Comm& comm = mpi::world();
    for (const Way& way : kWays) {
        Sample sample(comm);
        fill(sample);
        plan::Plan whole = plan_of(comm, sample, way);
        execute::RunOptions options;
        EXPECT_EQ(code_of(comm, sample, whole, options), ErrorCode::ok);
        options.resumption.blocks = blocks_of(sample, whole);
        ASSERT_GE(options.resumption.blocks.size(), 2U);
        comm.barrier();
        EXPECT_EQ(code_of(comm, sample, whole, options), ErrorCode::ok);
        // Taken over twice.
        options.resumption.blocks.push_back(options.resumption.blocks.back());
        EXPECT_EQ(code_of(comm, sample, whole, options), ErrorCode::internal);
        // Nobody owns the end of the output space.
        plan::Plan cut = plan_of(comm, sample, way);
        cut.cuts.back() -= 2;
        EXPECT_EQ(code_of(comm, sample, cut, {}), ErrorCode::internal);
    }
}

/// What a run must not touch that was left alone: the directory of another one.
class Others {
  public:
    Others(const plan::Plan& plan, fs::path directory) : directory_(std::move(directory)) {
        fs::create_directories(directory_ / "journal");
        for (const outputs::PlacedFile& file : plan.placement.files) {
            std::ofstream(directory_ / file.name) << std::string(file.size, 'x');
        }
    }
    void expect_untouched(const plan::Plan& plan) const {
        for (const outputs::PlacedFile& file : plan.placement.files) {
            EXPECT_TRUE(test::content_of(directory_ / file.name) == std::string(file.size, 'x'))
                << file.name;
        }
        EXPECT_TRUE(fs::is_empty(directory_ / "journal"));
    }

  private:
    fs::path directory_;
};

TEST(Run, writes_into_no_other_directory_of_that_name) {
    mpi::Comm& comm = mpi::world();
    for (const Way& way : kWays) {
        Sample sample(comm);
        fill(sample);
        plan::Plan plan = plan_of(comm, sample, way);
        const fs::path out = sample.directory() / "out";
        if (comm.rank() == 0) {
            fs::create_directories(out / "journal");
        }
        comm.barrier();
        const io::Directory ours(out);
        execute::create_files(comm, plan, ours);
        comm.barrier();
        std::optional<Others> others;
        if (comm.rank() == 0) {
            fs::remove_all(out);
            others.emplace(plan, out);
        }
        comm.barrier();
        execute::RunOptions options;
        options.resumption.journal = out / "journal";
        const auto failure = error_of([&] {
            (void)execute::run(comm, plan, {sample.directory(), &sample.files(), 2}, ours, options);
        });
        ASSERT_TRUE(failure);
        EXPECT_EQ(failure->code(), ErrorCode::target) << failure->what();
        const auto refusal = error_of([&] { execute::create_files(comm, plan, ours); });
        ASSERT_TRUE(refusal);
        EXPECT_EQ(refusal->code(), ErrorCode::target) << refusal->what();
        comm.barrier();
        if (others) {
            others->expect_untouched(plan);
        }
        comm.barrier();
    }
}

}  // namespace
}  // namespace shardweld
