// What of the input nothing needs any more.
#include "execute/listeners/consumption.hpp"

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "support/flat_target.hpp"

namespace shardweld::execute {

void PrintTo(const FileRange& range, std::ostream* out) {
    *out << range.file << ": " << range.begin << "-" << range.end;
}

namespace {

using Ranges = std::vector<FileRange>;

/// A target of bf16, whose elements lie in file 0 from `base` on, `stride` elements from row to
/// row.
plan::Target matrix(const char* name, Index rows, Index columns, Bytes base, Index stride) {
    plan::Target target = test::flat_target(name, DType::bf16, rows * columns);
    layout::Copy copy;
    copy.loops.push_back({rows, stride, columns});
    copy.loops.push_back({columns, 1, 1});
    target.operands = {{0, base, layout::normal(copy)}};
    return target;
}

plan::Plan plan_of(std::vector<plan::Target> targets) {
    return plan::make_plan(std::move(targets), {{"file", 1 << 30}},
                           plan::Visibility::everywhere(1, 1), {});
}

std::uint32_t tensor_called(const plan::Plan& plan, const std::string& name) {
    std::uint32_t at = 0;
    while (plan.tensor(at).name != name) {
        ++at;
    }
    return at;
}

plan::Slice slice(const plan::Plan& plan, const std::string& name, Index begin, Index end) {
    return {tensor_called(plan, name), begin, end, 0};
}

TEST(Consumption, frees_what_lies_together_as_it_is_made) {
    const plan::Plan plan = plan_of({matrix("a", 4, 8, 100, 8)});
    Consumption consumption(plan);
    EXPECT_EQ(consumption.take(slice(plan, "a", 0, 10), 0), (Ranges{{0, 100, 120}}));
    EXPECT_EQ(consumption.take(slice(plan, "a", 10, 32), 0), (Ranges{{0, 120, 164}}));
    EXPECT_EQ(consumption.used_of_files(2), (std::vector<Bytes>{64, 0}));
}

TEST(Consumption, keeps_what_another_target_needs) {
    // Left and right columns of one stored matrix.
    const plan::Plan plan = plan_of({matrix("left", 4, 4, 100, 8), matrix("right", 4, 4, 108, 8)});
    Consumption consumption(plan);
    EXPECT_EQ(consumption.take(slice(plan, "left", 0, 16), 0), Ranges{});
    EXPECT_EQ(consumption.take(slice(plan, "right", 0, 8), 0), Ranges{});
    EXPECT_EQ(consumption.take(slice(plan, "right", 8, 16), 0), (Ranges{{0, 100, 164}}));
}

TEST(Consumption, keeps_what_several_ranks_have_a_part_in) {
    const plan::Plan plan = plan_of({matrix("left", 4, 4, 100, 8), matrix("right", 4, 4, 108, 8)});
    Consumption consumption(plan);
    EXPECT_EQ(consumption.take(slice(plan, "left", 0, 16), 0), Ranges{});
    EXPECT_EQ(consumption.take(slice(plan, "right", 0, 16), 1), Ranges{});
}

TEST(Consumption, needs_replicas_no_longer_than_their_target_and_not_beside_operands) {
    plan::Target weight = matrix("w", 2, 8, 100, 8);
    plan::Target other = matrix("x", 2, 8, 200, 8);
    weight.replicas = {matrix("", 2, 8, 200, 8).operands.front(),   // x's own bytes
                       matrix("", 2, 8, 300, 8).operands.front()};  // nobody else's
    plan::Plan plan = plan_of({weight, other});
    Consumption consumption(plan);
    EXPECT_EQ(consumption.take(slice(plan, "w", 0, 16), 0), (Ranges{{0, 100, 132}, {0, 300, 332}}));
    EXPECT_EQ(consumption.take(slice(plan, "x", 0, 16), 0), (Ranges{{0, 200, 232}}));
}

TEST(Consumption, knows_who_needs_what_is_gone) {
    const plan::Plan plan = plan_of({matrix("a", 4, 8, 100, 8)});
    const Consumption consumption(plan);
    const Ranges gone{{0, 120, 140}};
    EXPECT_EQ(consumption.needing(slice(plan, "a", 0, 10), gone), nullptr);
    EXPECT_NE(consumption.needing(slice(plan, "a", 0, 11), gone), nullptr);
    EXPECT_EQ(consumption.needing(slice(plan, "a", 20, 32), gone), nullptr);
}

TEST(Consumption, tells_how_much_is_there_twice) {
    constexpr Index kRow = 1 << 16;  // 128 KiB
    const plan::Plan rows = plan_of({matrix("a", 32, kRow, 0, kRow)});
    EXPECT_EQ(most_beside(rows, Bytes{1} << 20U), Bytes{1} << 20U);
    const plan::Plan columns =
        plan_of({matrix("l", 32, kRow / 2, 0, kRow), matrix("r", 32, kRow / 2, kRow, kRow)});
    EXPECT_EQ(most_beside(columns, Bytes{1} << 20U), Bytes{4} << 20U);
}

TEST(FreedRanges, grow_with_what_touches_them) {
    FreedRanges freed(2);
    EXPECT_EQ(freed.add({1, 10, 20}), (FileRange{1, 10, 20}));
    EXPECT_EQ(freed.add({1, 30, 40}), (FileRange{1, 30, 40}));
    EXPECT_EQ(freed.add({0, 20, 30}), (FileRange{0, 20, 30}));
    EXPECT_EQ(freed.add({1, 20, 30}), (FileRange{1, 10, 40}));
    EXPECT_EQ(freed.add({1, 5, 50}), (FileRange{1, 5, 50}));
    EXPECT_EQ(freed.all(), (Ranges{{0, 20, 30}, {1, 5, 50}}));
}

}  // namespace
}  // namespace shardweld::execute
