#include "app/compare/comparison.hpp"

#include <gtest/gtest.h>

#include "catalogue/tensor.hpp"

namespace shardweld::app {
namespace {

using Shape = std::vector<Index>;

plan::Target target(const std::string& name, DType dtype, const Shape& shape) {
    return {{name, dtype, shape}, dtype};
}
catalogue::Tensor tensor(const std::string& name, DType dtype, const Shape& shape) {
    return {name, dtype, shape, {}};
}

/// "name verdict [tied to]" of all tensors, one a line.
std::string verdicts(const ComparedModels& models) {
    std::string text;
    for (const ComparedTensor& row : models.tensors) {
        text += row.name + " " + std::string(name_of(row.verdict)) +
                (row.tied_to.empty() ? "" : " " + row.tied_to) + "\n";
    }
    return text;
}

ComparedModels judged(ComparedModels models, const std::vector<numeric::Comparison>& found,
                      bool is_strict) {
    judge(models, found, is_strict);
    return models;
}

Job diff_of_x_and_y() {
    Job job;
    job.command = Command::diff;
    job.inputs.front().directory = "x";
    job.run.reference = "y";
    job.run.rtol = 1e-6;
    job.run.atol = 1e-5;
    return job;
}

numeric::Comparison equal(Index n) {
    return {n, 0, 0, 0, {}, {}};
}
numeric::Comparison differing(Index n) {
    return {n, 2, 1, 0, {0.5, 3}, {0.25, 2}};
}

TEST(Comparison, pairs_by_name_in_natural_order) {
    const std::vector<plan::Target> tested = {
        target("l.10.w", DType::bf16, {2, 2}), target("l.9.w", DType::bf16, {4}),
        target("only.here", DType::f32, {1}), target("reshaped", DType::f32, {2, 3})};
    const std::vector<catalogue::Tensor> reference = {
        tensor("l.9.w", DType::bf16, {4}), tensor("l.10.w", DType::bf16, {2, 2}),
        tensor("only.there", DType::f32, {1}), tensor("reshaped", DType::f32, {3, 2})};
    const ComparedModels matching = match(tested, reference);
    ASSERT_EQ(matching.pairs.size(), 2U);
    EXPECT_EQ(matching.pairs[0].written, 1U);
    EXPECT_EQ(matching.pairs[0].reference, 0U);
    const ComparedModels outcome = judged(matching, {equal(4), differing(4)}, false);
    EXPECT_EQ(verdicts(outcome),
              "l.9.w same_bits\nl.10.w values\nonly.here extra\nonly.there missing\nreshaped "
              "shape\n");
    EXPECT_EQ(difference_text(outcome),
              "4 of 5 tensors differ: 1 missing, 1 extra, 1 in shape, 1 in values");
    EXPECT_EQ(outcome.n_different(), 4U);
}

TEST(Comparison, takes_what_is_within_the_tolerance_as_equal_but_not_bit_for_bit) {
    const std::vector<plan::Target> tested = {target("w", DType::f32, {4})};
    const std::vector<catalogue::Tensor> reference = {tensor("w", DType::f32, {4})};
    const ComparedModels outcome =
        judged(match(tested, reference), {{4, 3, 0, 0, {1e-7, 0}, {1e-7, 0}}}, true);
    EXPECT_EQ(verdicts(outcome), "w close\n");
    EXPECT_EQ(difference_text(outcome), "");
}

TEST(Comparison, rounds_to_the_narrower_dtype_unless_strict) {
    const std::vector<plan::Target> tested = {target("w", DType::f32, {4}),
                                              target("x", DType::i32, {4})};
    const std::vector<catalogue::Tensor> reference = {tensor("w", DType::bf16, {4}),
                                                      tensor("x", DType::i64, {4})};
    const ComparedModels matching = match(tested, reference);
    ASSERT_EQ(matching.pairs.size(), 1U);
    EXPECT_EQ(matching.pairs[0].dtype, DType::bf16);
    const ComparedModels loose = judged(matching, {equal(4)}, false);
    EXPECT_EQ(verdicts(loose), "w close\nx dtype\n");
    EXPECT_EQ(loose.notes,
              (std::vector<std::string>{"1 tensor has another dtype in the reference: compared as "
                                        "bfloat16 (--strict_dtype makes it a difference)"}));
    const ComparedModels strict = judged(matching, {equal(4)}, true);
    EXPECT_EQ(verdicts(strict), "w dtype\nx dtype\n");
    EXPECT_EQ(strict.notes, std::vector<std::string>{});
}

TEST(Comparison, takes_a_tied_head_that_one_model_lacks_for_the_embedding) {
    const std::vector<plan::Target> tied = {
        target("model.embed_tokens.weight", DType::bf16, {4, 2})};
    const std::vector<catalogue::Tensor> both = {
        tensor("model.embed_tokens.weight", DType::bf16, {4, 2}),
        tensor("lm_head.weight", DType::bf16, {4, 2})};
    const ComparedModels matching = match(tied, both, true);
    ASSERT_EQ(matching.pairs.size(), 2U);
    const ComparedModels same = judged(matching, {equal(8), equal(8)}, true);
    EXPECT_EQ(verdicts(same),
              "lm_head.weight same_bits model.embed_tokens.weight\n"
              "model.embed_tokens.weight same_bits\n");
    EXPECT_EQ(same.notes, (std::vector<std::string>{
                              "only the reference has lm_head.weight; the other model ties it to "
                              "model.embed_tokens.weight, which holds the same: no difference"}));
    // A head of its own is missing.
    const ComparedModels other = judged(matching, {differing(8), equal(8)}, false);
    EXPECT_EQ(verdicts(other),
              "lm_head.weight missing model.embed_tokens.weight\n"
              "model.embed_tokens.weight same_bits\n");
    // So it is where the config denies the tie.
    EXPECT_EQ(match(tied, both, false, true).pairs.size(), 1U);
}

TEST(Comparison, takes_a_head_that_only_the_tested_model_has_alike) {
    const std::vector<plan::Target> both = {
        target("lm_head.weight", DType::bf16, {4, 2}),
        target("model.embed_tokens.weight", DType::bf16, {4, 2})};
    const std::vector<catalogue::Tensor> tied = {
        tensor("model.embed_tokens.weight", DType::bf16, {4, 2})};
    const ComparedModels outcome = judged(match(both, tied), {equal(8), equal(8)}, false);
    EXPECT_EQ(difference_text(outcome), "");
    EXPECT_EQ(match(both, tied, true, false).pairs.size(), 1U);
    // No embedding of that shape: nothing to be tied to.
    const std::vector<catalogue::Tensor> smaller = {
        tensor("model.embed_tokens.weight", DType::bf16, {3, 2})};
    EXPECT_TRUE(match(both, smaller).pairs.empty());
}

TEST(Comparison, takes_one_tied_matrix_under_two_names_for_one) {
    const std::vector<plan::Target> head = {target("lm_head.weight", DType::bf16, {4, 2})};
    const std::vector<catalogue::Tensor> embedding = {
        tensor("model.embed_tokens.weight", DType::bf16, {4, 2})};
    const ComparedModels matching = match(head, embedding, true, true);
    ASSERT_EQ(matching.pairs.size(), 2U);
    EXPECT_EQ(difference_text(judged(matching, {equal(8), equal(8)}, true)), "");
    EXPECT_NE(difference_text(judged(matching, {differing(8), differing(8)}, true)), "");
    EXPECT_TRUE(match(head, embedding, false, false).pairs.empty());
}

TEST(Comparison, leaves_tables_aside_that_loaders_compute) {
    const std::vector<plan::Target> tested = {target("w", DType::f32, {4})};
    const std::vector<catalogue::Tensor> reference = {
        tensor("w", DType::f32, {4}),
        tensor("model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2})};
    const ComparedModels outcome = judged(match(tested, reference), {equal(4)}, false);
    EXPECT_EQ(verdicts(outcome), "w same_bits\n");
    EXPECT_EQ(outcome.notes.size(), 1U);
}

TEST(ConfigDifferences, are_fields_that_are_not_the_same) {
    const auto found =
        config_differences(R"({"a": 1, "b": [1], "transformers_version": "4", "c": 2})",
                           R"({"a": 1.0, "b": [2], "transformers_version": "5"})");
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0].field + found[0].tested + found[0].reference, "b[1][2]");
    EXPECT_EQ(found[1].field + found[1].tested + found[1].reference, "c2");
    EXPECT_TRUE(config_differences("", "{}").empty());
    EXPECT_TRUE(config_differences("[1]", "{}").empty());
}

TEST(ComparisonText, shows_differences_only_and_where_they_are) {
    const std::vector<plan::Target> tested = {target("a", DType::f32, {2, 4}),
                                              target("b", DType::f32, {8})};
    const std::vector<catalogue::Tensor> reference = {tensor("a", DType::f32, {2, 4}),
                                                      tensor("b", DType::f32, {8})};
    const ComparedModels models = judged(match(tested, reference), {differing(8), equal(8)}, false);
    EXPECT_EQ(comparison_text(diff_of_x_and_y(), models, {}),
              "tested     x\n"
              "reference  y\n"
              "tolerance  1e-05 absolute, 1e-06 relative\n"
              "\n"
              "tensor  difference  tested          reference       elements  absolute  at      "
              "relative  at\n"
              "a       values      float32 [2, 4]  float32 [2, 4]  1 of 8    0.5       [0, 3]  "
              "0.25      [0, 2]\n"
              "\n"
              "1 of 2 tensors differ: 1 in values; 1 matches, bit for bit\n");
}

/// Layers of which every tensor `w` differs, and so does `x` of the even ones.
ComparedModels layers_apart(int n_layers) {
    std::vector<plan::Target> tested;
    std::vector<catalogue::Tensor> reference;
    std::vector<numeric::Comparison> found;
    for (int layer = 0; layer < n_layers; ++layer) {
        for (const char* part : {"w", "x"}) {
            const std::string name = "layers." + std::to_string(layer) + "." + part;
            tested.push_back(target(name, DType::f32, {2, 4}));
            reference.push_back(tensor(name, DType::f32, {2, 4}));
            found.push_back(*part == 'x' && layer % 2 != 0 ? equal(8) : differing(8));
            found.back().absolute.error *= layer == 3 ? 2 : 1;
        }
    }
    return judged(match(tested, reference), found, false);
}

TEST(ComparisonText, joins_tensors_of_layers_that_differ_alike) {
    const std::string text = comparison_text(diff_of_x_and_y(), layers_apart(6), {});
    const auto has = [&](const char* part) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
    };
    has("\nlayers.{0-5}.w: 6 tensors differ    values ");
    has(" 6 of 48   1         {3} [0, 3] ");
    has("\nlayers.{0,2,4}.x: 3 tensors differ  values ");
    has("\n9 of 12 tensors differ: 9 in values; 3 match, all bit for bit\n");
}

TEST(ComparisonText, stops_at_twenty_rows_and_shows_all_of_them_on_request) {
    std::vector<plan::Target> tested;
    for (char letter = 'a'; letter < 'a' + 23; ++letter) {
        tested.push_back(target(std::string(1, letter), DType::f32, {1}));
    }
    const ComparedModels models = judged(match(tested, {}), {}, false);
    Job job = diff_of_x_and_y();
    const std::string text = comparison_text(job, models, {});
    EXPECT_NE(text.find("\nt "), std::string::npos) << text;
    EXPECT_EQ(text.find("\nu "), std::string::npos) << text;
    EXPECT_NE(text.find("and 3 more rows; -v lists all"), std::string::npos) << text;
    job.run.log_level = LogLevel::debug;
    EXPECT_NE(comparison_text(job, models, {}).find("\nw "), std::string::npos);
    EXPECT_NE(comparison_text(job, layers_apart(30), {}).find("\nlayers.29.w "), std::string::npos);
}

}  // namespace
}  // namespace shardweld::app
