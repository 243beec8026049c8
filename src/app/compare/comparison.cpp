#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/names/name_rules.hpp"
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
        if (is(std::string(tensors[at].name)) && tensors[at].shape == shape) {
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

template <typename Tensor>
TensorSide side_of(const Tensor& tensor) {
    return {tensor.dtype, tensor.shape};
}

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
    static_assert(kNames.size() == as_size(Verdict::values) + 1);
    return kNames[as_size(verdict)];
}

bool is_difference(Verdict verdict) {
    return verdict != Verdict::same_bits && verdict != Verdict::close;
}

std::size_t ComparedModels::n_different() const {
    return as_size(std::ranges::count_if(tensors, is_difference, &ComparedTensor::verdict));
}

ComparedModels match(const plan::WrittenTensors& tested,
                     const std::vector<catalogue::Tensor>& reference,
                     std::optional<bool> tested_ties, std::optional<bool> reference_ties) {
    // Indices, not names, from here on.
    using Place = std::optional<std::size_t>;
    std::map<std::string, std::pair<Place, Place>, decltype(&natural_less)> places(natural_less);
    for (const std::size_t i : indices(tested)) {
        places[tested[i].name].first = i;
    }
    for (const std::size_t i : indices(reference)) {
        places[reference[i].name].second = i;
    }
    ComparedModels result;
    std::size_t n_computed = 0;
    for (const auto& [name, both] : places) {
        auto [one, other] = both;
        if (!one && name.ends_with(kComputed)) {
            ++n_computed;
            continue;
        }
        ComparedTensor row{name, Verdict::shape, {}, {}, "", {}, {}};
        if (one) {
            row.tested = side_of(tested[*one]);
        }
        if (other) {
            row.reference = side_of(reference[*other]);
        }
        if (!other) {
            row.verdict = Verdict::extra;
            if (reference_ties.value_or(true)) {
                other = tied_to(name, reference, row.tested->shape);
            }
            row.tied_to = other ? reference[*other].name : "";
        } else if (!one) {
            row.verdict = Verdict::missing;
            if (tested_ties.value_or(true)) {
                one = tied_to(name, tested, row.reference->shape);
            }
            row.tied_to = one ? tested[*one].name : "";
        } else if (row.tested->shape == row.reference->shape) {
            row.verdict = Verdict::dtype;
        }
        const auto dtype = one && other && row.verdict != Verdict::shape
                               ? numeric::common_dtype(tested[*one].dtype, reference[*other].dtype)
                               : std::nullopt;
        if (dtype) {  // there is a type in which its values can be compared
            row.compared_as = *dtype;
            result.pairs.push_back(
                {static_cast<std::uint32_t>(*one), static_cast<std::uint32_t>(*other), *dtype});
            result.tensor_of_pair.push_back(result.tensors.size());
        }
        result.tensors.push_back(std::move(row));
    }
    if (n_computed > 0) {
        result.notes.push_back("left aside: " + std::to_string(n_computed) + " tensors *" +
                               std::string(kComputed) +
                               " of the reference, which every loader computes itself");
    }
    return result;
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
