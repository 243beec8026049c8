#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "catalogue/tensor.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kHead = "lm_head.weight";
constexpr std::array<std::string_view, 3> kEmbeddings = {"embed_tokens.weight", "wte.weight",
                                                         "word_embeddings.weight"};
// Computed from the config by every current version of transformers.
constexpr std::string_view kComputed = "rotary_emb.inv_freq";

bool is_embedding(std::string_view name) {
    return std::any_of(kEmbeddings.begin(), kEmbeddings.end(),
                       [&](std::string_view ending) { return name.ends_with(ending); });
}

/// The only embedding of this shape, which a tied head must equal; nullptr if there is none.
template <typename Tensor>
const Tensor* embedding_of(const std::vector<Tensor>& tensors, const std::vector<Index>& shape) {
    const Tensor* found = nullptr;
    for (const Tensor& tensor : tensors) {
        if (is_embedding(tensor.name) && tensor.shape == shape) {
            if (found != nullptr) {
                return nullptr;
            }
            found = &tensor;
        }
    }
    return found;
}

/// Puts the tensors of both sides together; indices, not names, from here on.
class Matcher {
  public:
    Matcher(const std::vector<plan::Target>& tested,
            const std::vector<catalogue::Tensor>& reference, const StatedTies& ties)
        : tested_(tested), reference_(reference), ties_(ties) {}

    Matching run() {
        struct NamedPair {
            const plan::Target* target = nullptr;
            const catalogue::Tensor* tensor = nullptr;
        };
        const auto less = [](const std::string& a, const std::string& b) {
            return natural_less(a, b);
        };
        std::map<std::string, NamedPair, decltype(less)> places(less);
        for (const plan::Target& target : tested_) {
            places[target.name].target = &target;
        }
        for (const catalogue::Tensor& tensor : reference_) {
            places[tensor.name].tensor = &tensor;
        }
        for (const auto& [name, at] : places) {
            if (at.target != nullptr && at.tensor != nullptr) {
                add_both(*at.target, *at.tensor);
            } else if (at.target != nullptr) {
                add_extra(*at.target);
            } else {
                add_missing(*at.tensor);
            }
        }
        if (n_computed_ > 0) {
            result_.notes.push_back("left aside: " + std::to_string(n_computed_) + " tensors *" +
                                    std::string(kComputed) +
                                    " of the reference, which every loader computes itself");
        }
        return std::move(result_);
    }

  private:
    void add_both(const plan::Target& target, const catalogue::Tensor& tensor) {
        ComparedTensor row{target.name, Verdict::shape, side_of(target), side_of(tensor), "", {},
                           {}};
        if (target.shape == tensor.shape) {
            row.verdict = Verdict::dtype;
            pair(row, target, tensor);
        }
        result_.tensors.push_back(std::move(row));
    }

    void add_extra(const plan::Target& target) {
        ComparedTensor row{target.name, Verdict::extra, side_of(target), {}, "", {}, {}};
        if (target.name.ends_with(kHead) && ties_.reference.value_or(true)) {
            if (const auto* embedding = embedding_of(reference_, target.shape)) {
                row.tied_to = embedding->name;
                pair(row, target, *embedding);
            }
        }
        result_.tensors.push_back(std::move(row));
    }

    void add_missing(const catalogue::Tensor& tensor) {
        if (tensor.name.ends_with(kComputed)) {
            ++n_computed_;
            return;
        }
        ComparedTensor row{tensor.name, Verdict::missing, {}, side_of(tensor), "", {}, {}};
        if (tensor.name.ends_with(kHead) && ties_.tested.value_or(true)) {
            if (const auto* embedding = embedding_of(tested_, tensor.shape)) {
                row.tied_to = embedding->name;
                pair(row, *embedding, tensor);
            }
        }
        result_.tensors.push_back(std::move(row));
    }

    /// Has the row's values compared, where there is a type for it.
    void pair(ComparedTensor& row, const plan::Target& target, const catalogue::Tensor& tensor) {
        const auto dtype = numeric::common_dtype(target.dtype, tensor.dtype);
        if (!dtype) {
            return;
        }
        row.compared_as = *dtype;
        result_.pairs.push_back({static_cast<std::uint32_t>(&target - tested_.data()),
                                 static_cast<std::uint32_t>(&tensor - reference_.data()), *dtype});
        result_.tensor_of_pair.push_back(result_.tensors.size());
    }

    template <typename Tensor>
    static TensorSide side_of(const Tensor& tensor) {
        return {tensor.dtype, tensor.shape};
    }

    const std::vector<plan::Target>& tested_;
    const std::vector<catalogue::Tensor>& reference_;
    StatedTies ties_;
    Matching result_;
    std::size_t n_computed_ = 0;
};

bool has_two_dtypes(const ComparedTensor& row) {
    return row.tested && row.reference && row.tested->dtype != row.reference->dtype;
}

/// The verdict of a tensor whose values were compared.
Verdict verdict_of(const ComparedTensor& row, bool is_strict) {
    if (!row.tied_to.empty() && row.found.n_different > 0) {
        return row.verdict;
    }
    if (row.found.n_different > 0) {
        return Verdict::values;
    }
    if (has_two_dtypes(row)) {
        return is_strict ? Verdict::dtype : Verdict::close;
    }
    return row.found.n_unequal_bits > 0 ? Verdict::close : Verdict::same_bits;
}

void note_tied(Outcome& outcome) {
    for (const ComparedTensor& row : outcome.tensors) {
        if (!row.tied_to.empty() && !is_difference(row.verdict)) {
            outcome.notes.push_back(printable(row.name) + " is in the " +
                                    (row.tested ? "tested" : "reference") +
                                    " model only: no difference, it equals the other's " +
                                    printable(row.tied_to) + ", which ties the two");
        }
    }
}

void note_dtypes(Outcome& outcome, bool is_strict) {
    std::map<DType, std::size_t> by_dtype;
    for (const ComparedTensor& row : outcome.tensors) {
        if (has_two_dtypes(row) && row.found.n_elements > 0 && row.verdict != Verdict::dtype) {
            ++by_dtype[row.compared_as];
        }
    }
    for (const auto& [dtype, count] : by_dtype) {
        outcome.notes.push_back(std::to_string(count) +
                                (count == 1 ? " tensor has" : " tensors have") +
                                " two dtypes: compared as " + std::string(torch_name(dtype)) +
                                (is_strict ? "" : " (--strict_dtype makes it a difference)"));
    }
}

}  // namespace

std::string_view name_of(Verdict verdict) {
    switch (verdict) {
        case Verdict::same_bits:
            return "same_bits";
        case Verdict::close:
            return "close";
        case Verdict::missing:
            return "missing";
        case Verdict::extra:
            return "extra";
        case Verdict::shape:
            return "shape";
        case Verdict::dtype:
            return "dtype";
        case Verdict::values:
            return "values";
    }
    return "";
}

bool is_difference(Verdict verdict) {
    return verdict != Verdict::same_bits && verdict != Verdict::close;
}

Matching match(const std::vector<plan::Target>& tested,
               const std::vector<catalogue::Tensor>& reference, const StatedTies& ties) {
    return Matcher(tested, reference, ties).run();
}

Outcome judge(Matching matching, const std::vector<numeric::Comparison>& found, bool is_strict) {
    Outcome outcome{std::move(matching.tensors), std::move(matching.notes), 0, 0, 0};
    for (std::size_t i = 0; i < found.size(); ++i) {
        ComparedTensor& row = outcome.tensors[matching.tensor_of_pair[i]];
        row.found = found[i];
        row.verdict = verdict_of(row, is_strict);
    }
    for (const ComparedTensor& row : outcome.tensors) {
        outcome.n_same_bits += row.verdict == Verdict::same_bits ? 1U : 0U;
        outcome.n_equal += is_difference(row.verdict) ? 0U : 1U;
        outcome.n_different += is_difference(row.verdict) ? 1U : 0U;
    }
    note_tied(outcome);
    note_dtypes(outcome, is_strict);
    return outcome;
}

std::string difference_text(const Outcome& outcome) {
    constexpr std::array<std::pair<Verdict, std::string_view>, 5> kKinds = {
        {{Verdict::missing, "missing"},
         {Verdict::extra, "extra"},
         {Verdict::shape, "in shape"},
         {Verdict::dtype, "in dtype"},
         {Verdict::values, "in values"}}};
    std::string text;
    for (const auto& [verdict, words] : kKinds) {
        const auto count =
            std::count_if(outcome.tensors.begin(), outcome.tensors.end(),
                          [v = verdict](const ComparedTensor& row) { return row.verdict == v; });
        if (count > 0) {
            text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(words);
        }
    }
    return text.empty() ? ""
                        : std::to_string(outcome.n_different) + " of " +
                              std::to_string(outcome.tensors.size()) + " tensors differ: " + text;
}

}  // namespace shardweld::app
