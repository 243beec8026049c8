// An output that is made from another one's rounds: its own type, order and constants, what an
// earlier run has done of it, and that all of it is there at the end.
#include "execute/output_task.hpp"

#include <array>
#include <fstream>
#include <memory>
#include <numeric>
#include <optional>

#include <gtest/gtest.h>

#include "numeric/convert.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/relation.hpp"
#include "support/error_text.hpp"
#include "support/flat_target.hpp"
#include "support/temporary_directory.hpp"

namespace shardweld::execute {
namespace {

using plan::Target;

constexpr Index kHeight = 4, kWidth = 6;

/// A matrix of f32, whose rows are `row` elements apart in what is written, and columns `column`.
Target matrix(const std::string& name, Index row, Index column) {
    Target target = test::flat_target(name, DType::f32, kHeight * kWidth);
    target.logical_patches = {{"m", {0, {{0, kHeight, row}, {0, kWidth, column}}}}};
    return target;
}

Target row(const std::string& name, DType stored, Index n) {
    Target target = test::flat_target(name, stored, n);
    target.logical_patches = {{name, {0, {{0, n, 1}}}}};
    return target;
}

/// One output on one rank.
struct Side {
    Side(std::vector<Target> targets, const fs::path& directory)
        : plan(plan::make_plan(std::move(targets), files, plan::Visibility::everywhere(1, 1), {})),
          path(directory) {
        fs::create_directories(path / "journal");
        for (const outputs::PlacedFile& file : plan.placement.files) {
            std::ofstream(path / file.name) << std::string(to_size(file.size, "bytes"), '.');
        }
        options.sync = false;
        options.resumption.journal = path / "journal";
        directory_of.emplace(path);
    }

    [[nodiscard]] OutputTask task(const plan::Plan* primary) const {
        return {{plan, *directory_of, options}, SourceFiles{path, &files}, 0, primary};
    }
    [[nodiscard]] std::string written(std::uint32_t tensor) const {
        const outputs::Slot& slot = plan.placement.slots[tensor];
        return test::content_of(path / plan.placement.files[slot.file].name)
            .substr(slot.offset, plan.tensor(tensor).bytes());
    }

    std::vector<catalogue::File> files = {{"file", 1 << 30}};
    plan::Plan plan;
    fs::path path;
    std::optional<io::Directory> directory_of;
    RunOptions options;
};

std::string as_text(std::span<const std::byte> bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// The numbers from 0 on, as f32.
std::vector<std::byte> counted_up(Index n) {
    std::vector<float> values(to_size(to_bytes(n, "values"), "values"));
    std::iota(values.begin(), values.end(), 0.0F);
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
}

class OutputTaskTest : public ::testing::Test {
  protected:
    OutputTaskTest() {
        std::vector<Target> first{matrix("m", kWidth, 1), row("v", DType::u8, 5)};
        Target bytes = row("own_v", DType::u8, 5);
        bytes.logical_patches.own().front().segment = "v";
        std::vector<Target> second{bytes, matrix("turned", 1, kHeight)};
        second.back().dtype = DType::bf16;
        const std::array<float, 2> known{7, 9};
        second.back().beside.push_back(
            plan::constant("known", DType::f32, 2, std::as_bytes(std::span(known))));
        plan::share_strips(first, {&second});
        primary_.emplace(std::move(first), place_.path() / "primary");
        derived_.emplace(std::move(second), place_.path() / "derived");
    }

    /// All of the primary output's space as one round.
    void put_all(OutputTask& task) {
        const plan::Plan& plan = primary_->plan;
        const plan::OutputRange all{0, plan.space.begins.back()};
        Round round;
        assembled_.resize(matrix_.size() + vector_.size());
        std::span<std::byte> free = assembled_;
        for (const plan::Slice& slice : plan::work_of(plan, all)) {
            const std::vector<std::byte>& stored =
                plan.target_of(slice.tensor).name == "m" ? matrix_ : vector_;
            std::ranges::copy(stored, free.begin());
            round.slices.push_back({slice, free.first(stored.size())});
            free = free.subspan(stored.size());
        }
        task.write_round(round, all);
    }

    /// The matrix as the derived output has it.
    [[nodiscard]] static std::string turned() {
        std::vector<float> values;
        for (Index column = 0; column < kWidth; ++column) {
            for (Index row = 0; row < kHeight; ++row) {
                values.push_back(static_cast<float>(row * kWidth + column));
            }
        }
        std::vector<std::byte> narrow(values.size() * 2);
        numeric::convert(DType::f32, std::as_bytes(std::span(values)), DType::bf16, narrow);
        return as_text(narrow);
    }

    test::TemporaryDirectory place_;
    std::optional<Side> primary_;
    std::optional<Side> derived_;
    std::vector<std::byte> matrix_ = counted_up(kHeight * kWidth);
    std::vector<std::byte> vector_ = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4},
                                      std::byte{5}};
    std::vector<std::byte> assembled_;
    std::unique_ptr<mpi::Comm> comm_ = mpi::serial_comm();
};

TEST_F(OutputTaskTest, has_its_own_order_and_types_and_constants) {
    OutputTask task = derived_->task(&primary_->plan);
    task.put_constants(*comm_);
    put_all(task);
    task.writer().close();
    task.require_whole(*comm_);
    EXPECT_EQ(derived_->written(0), as_text(vector_));
    EXPECT_EQ(derived_->written(1), turned());
    EXPECT_EQ(derived_->written(2), as_text(derived_->plan.tensor(2).literal));
}

TEST_F(OutputTaskTest, that_leads_takes_the_rounds_as_they_are) {
    OutputTask task = primary_->task(nullptr);
    put_all(task);
    task.writer().close();
    task.require_whole(*comm_);
    EXPECT_EQ(primary_->written(0), as_text(matrix_));
    EXPECT_EQ(task.counts().bytes_written, primary_->plan.placement.tensor_bytes);
}

TEST_F(OutputTaskTest, is_not_whole_while_something_is_missing) {
    OutputTask task = derived_->task(&primary_->plan);
    put_all(task);
    task.writer().close();
    EXPECT_EQ(test::error_text([&] { task.require_whole(*comm_); }).rfind("internal: ", 0), 0U);
}

TEST_F(OutputTaskTest, takes_over_what_is_as_the_journal_says) {
    {
        OutputTask task = derived_->task(&primary_->plan);
        task.put_constants(*comm_);
        put_all(task);
        task.writer().close();
    }
    const auto read = read_journal(derived_->options.resumption.journal, derived_->plan);
    ASSERT_EQ(read.blocks.size(), 3U);
    derived_->options.resumption.blocks = read.blocks;
    derived_->options.resumption.session = 2;
    // One byte of the matrix has changed since.
    const outputs::Slot& slot = derived_->plan.placement.slots[1];
    std::fstream(derived_->path / derived_->plan.placement.files[slot.file].name,
                 std::ios::in | std::ios::out | std::ios::binary)
            .seekp(static_cast<std::streamoff>(slot.offset))
        << '!';
    OutputTask task = derived_->task(&primary_->plan);
    task.take_over(*comm_, SourceFiles{derived_->path, &derived_->files});
    EXPECT_EQ(task.counts().blocks_reused, 2);
    EXPECT_EQ(task.counts().bytes_damaged, derived_->plan.tensor(1).bytes());
    const std::vector<plan::OutputRange> done = task.done_of_primary();
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done.front().end - done.front().begin, vector_.size());
    task.put_constants(*comm_);
    put_all(task);
    task.writer().close();
    task.require_whole(*comm_);
    EXPECT_EQ(task.counts().bytes_written, derived_->plan.tensor(1).bytes());
    EXPECT_EQ(derived_->written(1), turned());
}

}  // namespace
}  // namespace shardweld::execute
