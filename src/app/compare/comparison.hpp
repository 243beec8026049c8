// Which tensors of two models belong together, what is to be said of each once they are compared,
// and how people and programs are shown it. No tensor is read here.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/settings/job.hpp"
#include "catalogue/tensor.hpp"
#include "execute/comparer.hpp"
#include "numeric/compare.hpp"
#include "numeric/quality.hpp"
#include "plan/binding.hpp"

namespace shardweld::app {

/// The result for one tensor of two models.
enum class Verdict {
    same_bits,
    close,  ///< equal within the tolerance
    missing,
    extra,
    shape,
    dtype,
    values,
};
std::string_view name_of(Verdict verdict);
/// Whether the models differ by it.
bool is_difference(Verdict verdict);

/// A tensor as one of the models has it.
struct TensorSide {
    DType dtype = DType::f32;
    std::vector<Index> shape;
};

/// One tensor of either model.
struct ComparedTensor {
    std::string name;
    Verdict verdict = Verdict::close;
    std::optional<TensorSide> tested;     ///< nullopt: missing
    std::optional<TensorSide> reference;  ///< nullopt: extra
    std::string tied_to;  ///< of a head or an embedding that one side lacks: what it must equal
    DType compared_as = DType::f32;
    numeric::Comparison found;                     ///< n_elements 0: values were not compared
    std::optional<numeric::Quality> quality = {};  ///< of codes, held against the reference
    std::string encoding = {};                     ///< theirs
};

/// Two models side by side: what is compared with what, and then what was found.
struct ComparedModels {
    std::vector<ComparedTensor> tensors;  ///< natural order of names; verdicts are preliminary
    std::vector<execute::ComparedPair> pairs;
    std::vector<std::size_t> tensor_of_pair;  ///< index into tensors
    std::vector<std::string> notes;

    [[nodiscard]] std::size_t n_different() const;
};

/// Pairs tensors by name. A head (`lm_head.weight`) that only one model holds is paired with the
/// other's embedding, unless that model's config denies the tie: `tested_ties` and
/// `reference_ties` are what the two config.json say of tie_word_embeddings, nullopt: nothing.
/// Positional tables that old models store (`rotary_emb.inv_freq`) are left aside with a note.
ComparedModels match(const plan::WrittenTensors& tested,
                     const std::vector<catalogue::Tensor>& reference,
                     std::optional<bool> tested_ties = {}, std::optional<bool> reference_ties = {});

/// Gives verdicts by what was found by pair. `is_strict`: another dtype is a difference.
void judge(ComparedModels& models, const std::vector<numeric::Comparison>& found, bool is_strict);

/// "3 of 22 tensors differ: 1 missing, 2 in values"; "" when none does.
std::string difference_text(const ComparedModels& models);

/// A field of config.json that the two models state differently; values as JSON, "" if absent.
struct ConfigDifference {
    std::string field;
    std::string tested;
    std::string reference;
};

/// Rows of a table that people are shown; a table of a whole model is too long to read.
inline constexpr std::size_t kMostRows = 20;
/// "and 3 more rows; ..."; "" for none.
std::string more_text(std::size_t n_rows);

/// Top-level fields in which two config.json differ, in the order of their names; `transformers
/// _version` is no part of a model. Empty when a text is "" or no JSON object. Pure.
std::vector<ConfigDifference> config_differences(const std::string& tested,
                                                 const std::string& reference);

/// What `test` or `diff` found, for people: with -v rows are neither joined nor cut off. `config`
/// is for information and never makes models differ.
std::string comparison_text(const Job& job, const ComparedModels& models,
                            const std::vector<ConfigDifference>& config);

/// The same for programs.
std::string comparison_json(const Job& job, const ComparedModels& models,
                            const std::vector<ConfigDifference>& config);

}  // namespace shardweld::app
