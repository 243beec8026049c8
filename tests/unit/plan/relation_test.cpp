// Outputs that are made from one read: what is in another order, stacked or turned is made of whole
// strips of the primary output, each once, and left out where all of it is done.
#include "plan/schedule/relation.hpp"

#include <algorithm>

#include <gtest/gtest.h>

#include "plan/plan.hpp"
#include "plan/schedule/derived_output.hpp"
#include "shardweld/error.hpp"
#include "support/flat_target.hpp"

namespace shardweld::plan {
namespace {

using layout::Axis;
using layout::Patch;

Patch patch_of(Index offset, std::initializer_list<Axis> axes) {
    return {offset, axes};
}

Target weight(const std::string& name, std::vector<Index> shape,
              std::vector<LogicalPatch> patches) {
    Target target = test::flat_target(name, DType::bf16, volume_of(shape, name));
    target.shape = std::move(shape);
    target.logical_patches = std::move(patches);
    return target;
}

void add_codes(Target target, Encoding encoding, std::vector<Target>& targets) {
    const EncodingFacts& facts = facts_of(encoding);
    const Index columns = target.shape.back();
    const Index rows = target.volume() / columns;
    target.encode = Encode{{encoding, rows, columns, facts.tile_rows}};
    target.dtype = facts.codes;
    target.shape.own().back() = facts.code_columns(columns);
    if (target.n_made() > 1) {
        target.beside.push_back({target.name.text() + "_scale",
                                 DType::f32,
                                 {facts.scale_rows(rows), facts.scale_columns(columns)}});
    }
    targets.push_back(std::move(target));
}

// 40 heads of 96 rows; 3 experts of 1408 rows; 16 heads with keys and values of 128 and 64 rows.
constexpr Index kHeads = 40, kSize = 96, kHalf = 48, kHidden = 5120;
constexpr Index kExperts = 3, kExpertRows = 1408, kExpertColumns = 2048;
constexpr Index kLatent = 16, kKeys = 128, kValues = 64, kRank = 512, kBoth = kKeys + kValues;

/// Axes d, h, n.
Target queries() {
    return weight(
        "q", {kHeads * kSize, kHidden},
        {{"q", patch_of(0, {{0, kSize, kHidden}, {0, kHidden, 1}, {0, kHeads, kSize * kHidden}})}});
}

/// The rows of a head in pairs of its halves.
Target paired_queries() {
    std::vector<LogicalPatch> halves;
    for (const Index half : {0, 1}) {
        halves.push_back({"q", patch_of(half * kHidden, {{half * kHalf, kHalf, 2 * kHidden},
                                                         {0, kHidden, 1},
                                                         {0, kHeads, kSize * kHidden}})});
    }
    return weight("pairs", {kHeads * kSize, kHidden}, std::move(halves));
}

/// Axes e, f, h.
Target expert(Index at) {
    return weight(
        "expert" + std::to_string(at), {kExpertRows, kExpertColumns},
        {{"e",
          patch_of(0, {{at, 1, 0}, {0, kExpertRows, kExpertColumns}, {0, kExpertColumns, 1}})}});
}

Target stack() {
    return weight("stack", {kExperts, kExpertRows, kExpertColumns},
                  {{"e", patch_of(0, {{0, kExperts, kExpertRows * kExpertColumns},
                                      {0, kExpertRows, kExpertColumns},
                                      {0, kExpertColumns, 1}})}});
}

/// Axes d, n, r of keys and of values.
Target latent() {
    const Axis heads{0, kLatent, kBoth * kRank};
    return weight("kv", {kLatent * kBoth, kRank},
                  {{"k", patch_of(0, {{0, kKeys, kRank}, heads, {0, kRank, 1}})},
                   {"v", patch_of(kKeys * kRank, {{0, kValues, kRank}, heads, {0, kRank, 1}})}});
}

Target turned_keys() {
    return weight(
        "k", {kLatent, kRank, kKeys},
        {{"k", patch_of(0, {{0, kKeys, 1}, {0, kLatent, kRank * kKeys}, {0, kRank, kKeys}})}});
}

Target values() {
    return weight(
        "v", {kLatent, kValues, kRank},
        {{"v", patch_of(0, {{0, kValues, kRank}, {0, kLatent, kValues * kRank}, {0, kRank, 1}})}});
}

std::vector<Target> primary_targets() {
    return {queries(), expert(0), expert(1), expert(2), latent()};
}

std::vector<Target> other_form() {
    std::vector<Target> own;
    for (Target& target : std::vector{paired_queries(), stack(), turned_keys(), values()}) {
        add_codes(std::move(target), encoding_from("gguf:q8_0").value(), own);
    }
    return own;
}

std::vector<Target> blocks() {
    std::vector<Target> own;
    for (Target& target : primary_targets()) {
        add_codes(std::move(target), encoding_from("fp8-block").value(), own);
    }
    return own;
}

Plan plan_of(std::vector<Target> targets) {
    return make_plan(std::move(targets), {{"file", Bytes{1} << 40U}}, Visibility::everywhere(2, 1),
                     {});
}

TEST(Relations, TellUnitsAndPlaces) {
    const auto found = relations_of(primary_targets(), other_form());
    ASSERT_EQ(found.size(), 6U);
    EXPECT_EQ(found[0].unit, kSize * kHidden);
    EXPECT_EQ(found[0].own_unit, kSize * kHidden);
    EXPECT_EQ(found[0].copies.size(), 2U);
    for (const std::size_t at : {0U, 1U, 2U}) {
        EXPECT_TRUE(found[at + 1].is_straight());
        EXPECT_EQ(found[at + 1].primary, at + 1);
        EXPECT_EQ(found[at + 1].first, static_cast<Index>(at) * kExpertRows * kExpertColumns);
    }
    EXPECT_EQ(found[4].unit, kBoth * kRank);
    EXPECT_EQ(found[4].own_unit, kKeys * kRank);
    EXPECT_EQ(found[5].unit, kBoth * kRank);
    EXPECT_EQ(found[5].own_unit, kValues * kRank);
}

std::string refusal(const std::vector<Target>& primary, const std::vector<Target>& own) {
    try {
        (void)relations_of(primary, own);
    } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::unsupported);
        return error.what();
    }
    return "accepted";
}

TEST(Relations, RefuseWhatThePrimaryDoesNotHold) {
    EXPECT_EQ(refusal(primary_targets(), {queries()}), "accepted");
    EXPECT_NE(refusal({expert(0), expert(2)}, {stack()}).find("tensor stack is made of other"),
              std::string::npos);
    EXPECT_NE(refusal({}, {values()}), "accepted");
    Target wider = queries();
    wider.stored = DType::f32;
    EXPECT_NE(refusal({wider}, {queries()}), "accepted");
    // Rows of two targets of the primary output by turns.
    const Target even = weight(
        "even", {2, 4},
        {{"x", patch_of(0, {{0, 1, 8}, {0, 4, 1}})}, {"y", patch_of(4, {{0, 1, 8}, {0, 4, 1}})}});
    const Target a = weight(
        "a", {1, 2},
        {{"x", patch_of(0, {{0, 1, 2}, {0, 2, 1}})}, {"y", patch_of(1, {{0, 1, 2}, {1, 1, 1}})}});
    EXPECT_NE(refusal({a}, {even}), "accepted");
}

/// The own output as the primary output's strips make it.
std::vector<OutputRange> made_by(const DerivedOutput& derived, const Plan& primary,
                                 const Plan& own) {
    std::vector<OutputRange> made;
    for (const Slice& slice : work_of(primary, {0, primary.space.begins.back()})) {
        for (const OutputMapping& relation : derived.of(slice.tensor)) {
            made.push_back(derived.range_of(relation, slice));
            const Slice first = slices_of(own, made.back()).front();
            EXPECT_EQ(first.begin % std::max<Index>(own.strip_elements(first.tensor), 1), 0);
        }
    }
    return made;
}

class Outputs : public testing::TestWithParam<bool> {
  protected:
    Outputs() {
        std::vector<Target> first = GetParam() ? blocks() : primary_targets();
        std::vector<Target> form = other_form();
        std::vector<Target> codes = blocks();
        share_strips(first, {&form, &codes});
        primary = plan_of(std::move(first));
        others = {plan_of(std::move(form)), plan_of(std::move(codes)), primary};
    }

    Plan primary;
    std::vector<Plan> others;
};

TEST_P(Outputs, AreMadeOfThePrimaryStripsOnce) {
    for (const Plan& own : others) {
        std::vector<OutputRange> made = made_by(DerivedOutput(primary, own), primary, own);
        std::ranges::sort(made, {}, &OutputRange::begin);
        Bytes end = 0;
        for (const OutputRange& range : made) {
            EXPECT_EQ(range.begin, end);
            end = range.end;
        }
        EXPECT_EQ(end, own.space.begins.back());
        EXPECT_GT(made.size(), own.targets.size());
    }
}

TEST_P(Outputs, NeedNoRoundForWhatIsDone) {
    for (const Plan& own : others) {
        const DerivedOutput derived(primary, own);
        const OutputRange all{0, own.space.begins.back()};
        const auto whole = derived.done_of_primary({{all}});
        EXPECT_EQ(whole, (std::vector<OutputRange>{{0, primary.space.begins.back()}}));
        // Every third strip is missing.
        std::vector<OutputRange> done;
        std::size_t n = 0;
        for (const OutputRange& made : made_by(derived, primary, own)) {
            if (n++ % 3 != 0) {
                done.push_back(made);
            }
        }
        done = united(std::move(done));
        const auto needless = derived.done_of_primary(done);
        EXPECT_FALSE(needless.empty());
        for (const Slice& slice : work_of(primary, {0, primary.space.begins.back()})) {
            const auto relations = derived.of(slice.tensor);
            const bool is_done = std::ranges::all_of(relations, [&](const OutputMapping& relation) {
                return without(derived.range_of(relation, slice), done).empty();
            });
            EXPECT_EQ(without({slice.output_begin, slice.output_begin + 1}, needless).empty(),
                      is_done)
                << primary.tensor(slice.tensor).name.text();
        }
    }
}

INSTANTIATE_TEST_SUITE_P(PrimaryOfWeightsAndOfCodes, Outputs, testing::Bool());

TEST(ShareStrips, StacksAreCutAtTheirMatrices) {
    std::vector<Target> first = primary_targets();
    std::vector<Target> form = other_form();
    share_strips(first, {&form});
    EXPECT_EQ(first[0].strip, kSize * kHidden);
    EXPECT_EQ(kExpertRows * kExpertColumns % first[1].strip, 0);
    EXPECT_EQ(form[1].encode->strip_rows, first[1].strip / kExpertColumns);
    EXPECT_EQ(form[1].encode->strip_rows, 176);
    EXPECT_EQ(first[4].strip % (kBoth * kRank), 0);
    EXPECT_EQ(form[2].encode->strip_rows, first[4].strip / kBoth);
}

}  // namespace
}  // namespace shardweld::plan
