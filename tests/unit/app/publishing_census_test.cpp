// What of a census is worth a warning, and how a base is told of.
#include <limits>

#include <gtest/gtest.h>

#include "app/compare/base_summary.hpp"
#include "app/report/report.hpp"

namespace shardweld::app {
namespace {

using numeric::Census;

plan::Target target(const std::string& name, std::vector<Index> shape, DType dtype = DType::bf16) {
    plan::Target target;
    target.name = name;
    target.stored = target.dtype = dtype;
    target.shape = std::move(shape);
    return target;
}

Census constant(bool has_nonzero) {
    return {6, 0, 0, has_nonzero ? 0 : 6, 0x3F80, true, has_nonzero};
}

std::vector<std::string> codes_of(const std::vector<Warning>& warnings) {
    std::vector<std::string> codes;
    for (const Warning& warning : warnings) {
        codes.push_back(warning.code + " " + warning.tensor);
    }
    return codes;
}

using WarningList = std::vector<std::string>;

TEST(Sanity, vectors_and_scalars_of_one_value_are_normal) {
    const std::vector<plan::Target> targets{target("norm", {6}), target("scalar", {}),
                                            target("row", {1, 6}), target("column", {6, 1, 1}),
                                            target("matrix", {2, 3})};
    for (const bool has_nonzero : {true, false}) {
        std::map<std::uint32_t, Census> census;
        for (std::uint32_t i = 0; i < targets.size(); ++i) {
            census[i] = constant(has_nonzero);
        }
        const auto sanity = judge_census(targets, census);
        EXPECT_EQ(codes_of(sanity_warnings(sanity)),
                  (WarningList{has_nonzero ? "constant matrix" : "all_zero matrix"}));
    }
}

TEST(Sanity, vectors_of_zeros_are_odd_where_the_base_has_something) {
    const std::vector<plan::Target> targets{target("norm", {6}), target("bias", {6}),
                                            target("matrix", {2, 3})};
    std::map<std::uint32_t, Census> census{
        {0, constant(false)}, {1, constant(false)}, {2, constant(false)}};
    const auto sanity = judge_census(targets, census, {"norm", "matrix"});
    ASSERT_EQ(sanity.size(), 2U);
    EXPECT_EQ(sanity[0].name, "norm");
    EXPECT_EQ(sanity[1].name, "matrix");
    census[0] = constant(true);
    EXPECT_EQ(codes_of(sanity_warnings(judge_census(targets, census, {"norm"}))),
              (WarningList{"all_zero matrix"}));
}

TEST(Sanity, exponents_that_are_alike_are_normal) {
    const std::vector<plan::Target> targets{target("scales", {2, 3}, DType::f8_e8m0)};
    EXPECT_TRUE(judge_census(targets, {{0, constant(true)}}).empty());
}

TEST(Sanity, nans_and_infinities_are_odd_everywhere_and_counted) {
    const std::vector<plan::Target> targets{target("norm", {6}), target("matrix", {2, 3}),
                                            target("other", {2, 3})};
    const auto sanity = judge_census(targets, {{0, {6, 2, 0, 0, 0, false, true}},
                                               {1, {6, 1, 3, 0, 0, false, true}},
                                               {2, {6, 6, 0, 0, 0x7FC0, true, true}}});
    const auto warnings = sanity_warnings(sanity);
    EXPECT_EQ(codes_of(warnings), (WarningList{"nan_values norm", "inf_values matrix"}));
    EXPECT_EQ(warnings[0].text, "3 written tensors hold NaNs: norm (2), matrix (1), other (6)");
    EXPECT_EQ(warnings[1].text, "1 written tensor holds infinities: matrix (3)");
}

TEST(Sanity, names_the_first_of_many) {
    std::vector<plan::Target> targets;
    std::map<std::uint32_t, Census> census;
    for (std::uint32_t i = 0; i < 20; ++i) {
        targets.push_back(target("m" + std::to_string(i), {2, 3}));
        census[i] = constant(false);
    }
    const auto warnings = sanity_warnings(judge_census(targets, census));
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(warnings[0].text,
              "20 written tensors are all zeros: m0, m1, m2, m3, m4, m5, m6, m7, ...");
}

ComparedTensor compared(const std::string& name, Index n_unequal, double largest) {
    ComparedTensor row;
    row.name = name;
    row.verdict = n_unequal == 0 ? Verdict::same_bits : Verdict::values;
    row.found.n_elements = 10;
    row.found.n_unequal_bits = n_unequal;
    row.found.absolute.error = largest;
    return row;
}

bool nothing(const std::string& /*name*/) {
    return false;
}

TEST(BaseSummary, counts_equal_tensors_and_names_the_largest_difference) {
    ComparedModels outcome;
    outcome.tensors = {compared("a", 0, 0), compared("b", 3, 0.25), compared("c", 1, 0.5)};
    outcome.tensors[2].found.n_different = 1;
    ComparedTensor lone;
    for (const auto& [name, verdict] : {std::pair{"d", Verdict::extra}, {"e", Verdict::missing}}) {
        lone.name = name;
        lone.verdict = verdict;
        outcome.tensors.push_back(lone);
    }
    const BaseSummary summary = summary_of("base", outcome, nothing);
    EXPECT_EQ(text_of(summary),
              "compared with the base base: 2 of 3 tensors differ, at most by 0.5 (c); only in the "
              "result: d; only in the base: e");
    const auto warnings = base_warnings(summary);
    EXPECT_EQ(codes_of(warnings), (WarningList{"base_missing e", "base_extra d"}));
    EXPECT_EQ(warnings[0].text, "1 tensor of the base is not in the result: e; was it lost?");
    EXPECT_EQ(summary.changed, (WarningList{"c"}));
    const auto is_aside = [](const std::string& name) { return name == "d" || name == "e"; };
    const BaseSummary aside = summary_of("base", outcome, is_aside);
    EXPECT_EQ(text_of(aside),
              "compared with the base base: 2 of 3 tensors differ, at most by 0.5 (c)");
    EXPECT_TRUE(base_warnings(aside).empty());
}

TEST(BaseSummary, warns_when_nothing_differs_or_shapes_do) {
    ComparedModels outcome;
    outcome.tensors = {compared("a", 0, 0), compared("b", 0, 0)};
    EXPECT_EQ(codes_of(base_warnings(summary_of("base", outcome, nothing))),
              (WarningList{"equals_base "}));
    ComparedTensor other;
    other.name = "c";
    other.verdict = Verdict::shape;
    outcome.tensors.push_back(other);
    EXPECT_EQ(codes_of(base_warnings(summary_of("base", outcome, nothing))),
              (WarningList{"base_differs_shape c"}));
}

}  // namespace
}  // namespace shardweld::app
