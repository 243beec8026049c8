// Codes and scales in the output space: strips that neither ranks nor rounds nor blocks divide.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "execute/journal.hpp"
#include "plan/bind/quantise.hpp"
#include "plan/plan.hpp"
#include "plan/schedule/rounds.hpp"
#include "support/flat_target.hpp"

namespace shardweld::execute {
namespace {

using plan::Encode;
using plan::Target;

/// A weight [rows, columns] as codes and scales, all its elements in file 0.
void add_quantised(const std::string& name, Index rows, Index columns,
                   std::vector<Target>& targets) {
    Target codes = test::flat_target(name, DType::bf16, rows * columns);
    const EncodingFacts& facts = facts_of(encoding_from("fp8-block").value());
    codes.shape = {rows, columns};
    codes.dtype = facts.codes;
    codes.encode = Encode{{encoding_from("fp8-block").value(), rows, columns,
                           plan::strip_rows_of(facts.tile_rows, columns)}};
    codes.beside.push_back(
        {name + "_scale_inv", DType::f32, {facts.scale_rows(rows), facts.scale_columns(columns)}});
    codes.beside.push_back(
        plan::constant(name + "_shape", DType::i64, 2, std::as_bytes(std::span(codes.shape))));
    targets.push_back(std::move(codes));
}

plan::Plan strips_plan(int n_ranks) {
    std::vector<Target> targets{test::flat_target("a", DType::bf16, 700'000)};
    add_quantised("b", 128 * 11, 1024, targets);
    add_quantised("c", 128 * 3, 8192, targets);
    return plan::make_plan(std::move(targets), {{"file", 1 << 30}},
                           plan::Visibility::everywhere(n_ranks, 1), {});
}

/// Elements of each target that slices hold, each once and in order.
void expect_whole(const plan::Plan& plan, const std::vector<plan::Slice>& slices) {
    std::vector<Index> done(plan.tensors.size(), 0);
    for (std::size_t i = 0; i < slices.size(); ++i) {
        const plan::Slice& slice = slices[i];
        EXPECT_EQ(slice.begin, done[slice.tensor]) << plan.tensor(slice.tensor).name.text();
        done[slice.tensor] = slice.end;
        if (!plan.target_of(slice.tensor).encode || plan.is_constant(slice.tensor)) {
            continue;
        }
        EXPECT_EQ(slice.begin % plan.strip_elements(slice.tensor), 0);
        if (plan.tensors[slice.tensor].output == 0) {
            ASSERT_LT(i + 1, slices.size());
            EXPECT_EQ(slices[i + 1].tensor, slice.tensor + 1);
            EXPECT_EQ(slices[i + 1].output_begin,
                      slice.output_begin + static_cast<Bytes>(slice.end - slice.begin));
        }
    }
    for (std::uint32_t i = 0; i < done.size(); ++i) {
        EXPECT_EQ(done[i], plan.tensor(i).volume()) << plan.tensor(i).name.text();
    }
}

TEST(Strips, are_never_divided) {
    for (const int n_ranks : {1, 2, 3, 5, 8, 13}) {
        const plan::Plan plan = strips_plan(n_ranks);
        expect_whole(plan, plan::slices_of(plan, {0, plan.space.begins.back()}));
        std::vector<plan::Slice> slices;
        for (int rank = 0; rank < n_ranks; ++rank) {
            plan::Rounds rounds(plan, rank);
            std::vector<plan::OutputRange> ranges;
            while (rounds.next(ranges)) {
                const auto of_round = plan::slices_of(plan, ranges[static_cast<std::size_t>(rank)]);
                slices.insert(slices.end(), of_round.begin(), of_round.end());
            }
        }
        std::erase_if(slices, [](const plan::Slice& slice) { return slice.tensor == 0; });
        slices.insert(slices.begin(), {0, 0, plan.targets[0].volume(), 0});
        expect_whole(plan, slices);
    }
}

TEST(Strips, are_blocks_of_the_journal) {
    const plan::Plan plan = strips_plan(3);
    const BlockPlaces places(plan);
    std::vector<DoneBlock> blocks;
    std::set<std::size_t> numbers;
    for (std::uint32_t tensor = 0; tensor < plan.tensors.size(); ++tensor) {
        for (Index number = 0; places.has({number, tensor, {}}); ++number) {
            blocks.push_back({number, tensor, {}});
            numbers.insert(places.index(blocks.back()));
            const auto found = plan::slices_of(plan, places.range(blocks.back()));
            ASSERT_EQ(found.size(), 1U);
            EXPECT_EQ(found.front().tensor, tensor);
            EXPECT_EQ(found.front().begin, places.slice(blocks.back()).begin);
            EXPECT_EQ(found.front().end, places.slice(blocks.back()).end);
        }
    }
    EXPECT_EQ(numbers.size(), blocks.size());
    EXPECT_EQ(numbers.size(), places.count());
    const auto ranges = places.ranges(blocks);
    ASSERT_EQ(ranges.size(), 1U);
    EXPECT_EQ(ranges.front(), (plan::OutputRange{0, plan.space.begins.back()}));
}

TEST(Strips, need_memory_for_a_whole_one) {
    std::vector<Target> targets;
    add_quantised("wide", 128, 1 << 17, targets);
    plan::JobPlan choice;
    choice.memory_limit = Bytes{16} << 20U;
    EXPECT_THROW((void)plan::make_plan(std::move(targets), {{"file", 1 << 30}},
                                       plan::Visibility::everywhere(1, 1), choice),
                 Error);
}

}  // namespace
}  // namespace shardweld::execute
