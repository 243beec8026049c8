#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "catalogue/tensor.hpp"
#include "core/name_rules.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

constexpr std::string_view kHead = "lm_head.weight";
// Computed from the config by every current version of transformers.
constexpr std::string_view kComputed = "rotary_emb.inv_freq";

bool is_embedding(std::string_view name) {
    return is_known_as(name, "embedding of a model");
}

bool is_language_head(std::string_view name) {
    return name.ends_with(kHead);
}

/// The only tensor of this shape with such a name; nullopt if there is none.
template <typename Tensors, typename Is>
std::optional<std::size_t> only_one(const Tensors& tensors, const std::vector<Index>& shape,
                                    const Is& is) {
    std::optional<std::size_t> found;
    for (const std::size_t at : indices(tensors)) {
        if (is(tensors[at].name) && tensors[at].shape == shape) {
            if (found) {
                return std::nullopt;
            }
            found = at;
        }
    }
    return found;
}

/// What a tied head or embedding must equal where a model lacks it: the one that is stored, whose
/// name libraries choose differently. What __metadata__ says of names is no proof: views of a
/// tensor stand there, too.
template <typename Tensors>
std::optional<std::size_t> tied_to(const std::string& name, const Tensors& tensors,
                                   const std::vector<Index>& shape) {
    if (!is_language_head(name) && !is_embedding(name)) {
        return std::nullopt;
    }
    const auto embedding = only_one(tensors, shape, is_embedding);
    return embedding || is_language_head(name) ? embedding
                                               : only_one(tensors, shape, is_language_head);
}

/// Puts the tensors of both sides together; indices, not names, from here on.
class Matcher {
  public:
    Matcher(const plan::WrittenTensors& tested, const std::vector<catalogue::Tensor>& reference,
            std::optional<bool> tested_ties, std::optional<bool> reference_ties)
        : tested_(tested),
          reference_(reference),
          tested_may_tie_(tested_ties.value_or(true)),
          reference_may_tie_(reference_ties.value_or(true)) {}

    ComparedModels run() {
        using Place = std::optional<std::size_t>;
        const auto less = [](const std::string& a, const std::string& b) {
            return natural_less(a, b);
        };
        std::map<std::string, std::pair<Place, Place>, decltype(less)> places(less);
        for (const std::size_t i : indices(tested_)) {
            places[tested_[i].name].first = i;
        }
        for (const std::size_t i : indices(reference_)) {
            places[reference_[i].name].second = i;
        }
        for (const auto& [name, both] : places) {
            const auto& [tested, reference] = both;
            if (tested && reference) {
                add_both(*tested, *reference);
            } else if (tested) {
                add_extra(*tested);
            } else {
                add_missing(*reference);
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
    void add_both(std::size_t tested, std::size_t reference) {
        const plan::WrittenTensor& one = tested_[tested];
        const catalogue::Tensor& other = reference_[reference];
        ComparedTensor row{one.name, Verdict::shape, side_of(one), side_of(other), "", {}, {}};
        if (one.shape == other.shape) {
            row.verdict = Verdict::dtype;
            pair(row, tested, reference);
        }
        result_.tensors.push_back(std::move(row));
    }

    void add_extra(std::size_t tested) {
        const plan::WrittenTensor& tensor = tested_[tested];
        ComparedTensor row{tensor.name, Verdict::extra, side_of(tensor), {}, "", {}, {}};
        const auto same =
            reference_may_tie_ ? tied_to(tensor.name, reference_, tensor.shape) : std::nullopt;
        if (same) {
            row.tied_to = reference_[*same].name;
            pair(row, tested, *same);
        }
        result_.tensors.push_back(std::move(row));
    }

    void add_missing(std::size_t reference) {
        const catalogue::Tensor& tensor = reference_[reference];
        if (tensor.name.ends_with(kComputed)) {
            ++n_computed_;
            return;
        }
        ComparedTensor row{tensor.name, Verdict::missing, {}, side_of(tensor), "", {}, {}};
        const auto same =
            tested_may_tie_ ? tied_to(tensor.name, tested_, tensor.shape) : std::nullopt;
        if (same) {
            row.tied_to = tested_[*same].name;
            pair(row, *same, reference);
        }
        result_.tensors.push_back(std::move(row));
    }

    /// Has the row's values compared, where there is a type for it.
    void pair(ComparedTensor& row, std::size_t tested, std::size_t reference) {
        const auto dtype =
            numeric::common_dtype(tested_[tested].dtype, reference_[reference].dtype);
        if (!dtype) {
            return;
        }
        row.compared_as = *dtype;
        result_.pairs.push_back(
            {static_cast<std::uint32_t>(tested), static_cast<std::uint32_t>(reference), *dtype});
        result_.tensor_of_pair.push_back(result_.tensors.size());
    }

    template <typename Tensor>
    static TensorSide side_of(const Tensor& tensor) {
        return {tensor.dtype, tensor.shape};
    }

    const plan::WrittenTensors& tested_;
    const std::vector<catalogue::Tensor>& reference_;
    bool tested_may_tie_;
    bool reference_may_tie_;
    ComparedModels result_;
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

void note_tied(ComparedModels& models) {
    for (const ComparedTensor& row : models.tensors) {
        if (!row.tied_to.empty() && !is_difference(row.verdict)) {
            models.notes.push_back(
                "only the " + std::string(row.tested ? "tested model" : "reference") + " has " +
                printable(row.name) + "; the other model ties it to " + printable(row.tied_to) +
                ", which holds the same: no difference");
        }
    }
}

void note_dtypes(ComparedModels& models, bool is_strict) {
    std::map<DType, std::size_t> by_dtype;
    for (const ComparedTensor& row : models.tensors) {
        if (has_two_dtypes(row) && row.found.n_elements > 0 && row.verdict != Verdict::dtype) {
            ++by_dtype[row.compared_as];
        }
    }
    for (const auto& [dtype, count] : by_dtype) {
        models.notes.push_back(counted(count, "tensor") + (count == 1 ? " has" : " have") +
                               " another dtype in the reference: compared as " + torch_name(dtype) +
                               (is_strict ? "" : " (--strict_dtype makes it a difference)"));
    }
}

}  // namespace

std::string_view name_of(Verdict verdict) {
    constexpr std::array kNames{"same_bits", "close", "missing", "extra",
                                "shape",     "dtype", "values"};
    static_assert(kNames.size() == static_cast<std::size_t>(Verdict::values) + 1);
    return kNames[static_cast<std::size_t>(verdict)];
}

bool is_difference(Verdict verdict) {
    return verdict != Verdict::same_bits && verdict != Verdict::close;
}

std::size_t ComparedModels::n_different() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(tensors, is_difference, &ComparedTensor::verdict));
}

ComparedModels match(const plan::WrittenTensors& tested,
                     const std::vector<catalogue::Tensor>& reference,
                     std::optional<bool> tested_ties, std::optional<bool> reference_ties) {
    return Matcher(tested, reference, tested_ties, reference_ties).run();
}

void judge(ComparedModels& models, const std::vector<numeric::Comparison>& found, bool is_strict) {
    for (const std::size_t i : indices(found)) {
        ComparedTensor& row = models.tensors[models.tensor_of_pair[i]];
        row.found = found[i];
        row.verdict = verdict_of(row, is_strict);
    }
    note_tied(models);
    note_dtypes(models, is_strict);
}

}  // namespace shardweld::app
