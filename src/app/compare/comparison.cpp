#include "comparison.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/checkpoint_text.hpp"
#include "app/report/report_json.hpp"
#include "catalogue/tensor.hpp"
#include "core/json.hpp"
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
    for (std::size_t at = 0; at < tensors.size(); ++at) {
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
            const StatedTies& ties)
        : tested_(tested), reference_(reference), ties_(ties) {}

    Matching run() {
        struct NamedPair {
            std::optional<std::size_t> tested;
            std::optional<std::size_t> reference;
        };
        const auto less = [](const std::string& a, const std::string& b) {
            return natural_less(a, b);
        };
        std::map<std::string, NamedPair, decltype(less)> places(less);
        for (std::size_t i = 0; i < tested_.size(); ++i) {
            places[tested_[i].name].tested = i;
        }
        for (std::size_t i = 0; i < reference_.size(); ++i) {
            places[reference_[i].name].reference = i;
        }
        for (const auto& [name, at] : places) {
            if (at.tested && at.reference) {
                add_both(*at.tested, *at.reference);
            } else if (at.tested) {
                add_extra(*at.tested);
            } else {
                add_missing(*at.reference);
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
        const auto same = ties_.reference.value_or(true)
                              ? tied_to(tensor.name, reference_, tensor.shape)
                              : std::nullopt;
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
        const auto same = ties_.tested.value_or(true) ? tied_to(tensor.name, tested_, tensor.shape)
                                                      : std::nullopt;
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
            outcome.notes.push_back(
                "only the " + std::string(row.tested ? "tested model" : "reference") + " has " +
                printable(row.name) + "; the other model ties it to " + printable(row.tied_to) +
                ", which holds the same: no difference");
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
        outcome.notes.push_back(counted(count, "tensor") + (count == 1 ? " has" : " have") +
                                " another dtype in the reference: compared as " +
                                std::string(torch_name(dtype)) +
                                (is_strict ? "" : " (--strict_dtype makes it a difference)"));
    }
}

using nlohmann::ordered_json;

constexpr int kComparisonSchema = 1;
constexpr std::size_t kLongestValue = 60;

/// The element's index in its tensor.
std::vector<Index> position_of(Index at, const std::vector<Index>& shape) {
    std::vector<Index> position(shape.size());
    for (std::size_t k = shape.size(); k-- > 0;) {
        position[k] = at % shape[k];
        at /= shape[k];
    }
    return position;
}

const std::vector<Index>& shape_of(const ComparedTensor& row) {
    return row.tested ? row.tested->shape : row.reference->shape;
}

std::string side_text(const std::optional<TensorSide>& side) {
    return side ? std::string(torch_name(side->dtype)) + " " + shape_text(side->shape) : "-";
}

/// Tensors that differ alike, such as one of each layer: a row of the table.
struct DifferenceRow {
    explicit DifferenceRow(const ComparedTensor& tensor)
        : first(&tensor), found(tensor.found), absolute(&tensor), relative(&tensor) {}

    void add(const ComparedTensor& tensor) {
        ++n_tensors;
        const auto is_worse = [&](numeric::Largest numeric::Comparison::*kind) {
            return (tensor.found.*kind).at >= 0 &&
                   ((found.*kind).at < 0 || (tensor.found.*kind).error > (found.*kind).error);
        };
        absolute = is_worse(&numeric::Comparison::absolute) ? &tensor : absolute;
        relative = is_worse(&numeric::Comparison::relative) ? &tensor : relative;
        found.add(tensor.found);
    }

    const ComparedTensor* first;
    std::size_t n_tensors = 1;
    std::vector<std::set<Index>> numbers;  ///< by the component of the name; empty: it has none
    numeric::Comparison found;             ///< of all
    const ComparedTensor* absolute;        ///< the tensor with the largest error
    const ComparedTensor* relative;
};

/// "model.layers.{0-27}.mlp.up_proj.weight: 28 tensors differ".
std::string name_text(const DifferenceRow& row) {
    if (row.n_tensors == 1) {
        return printable(row.first->name);
    }
    std::string text;
    const auto components = split(row.first->name, '.');
    for (std::size_t i = 0; i < components.size(); ++i) {
        const std::set<Index>& numbers = row.numbers[i];
        text += (i == 0 ? "" : ".") +
                (numbers.size() > 1 ? "{" + ranges_text({numbers.begin(), numbers.end()}) + "}"
                                    : std::string(components[i]));
    }
    return printable(text) + ": " + counted(row.n_tensors, "tensor") + " differ";
}

/// "[2, 22]"; of several tensors "{3} [2, 22]", with the numbers in the name of the one that is
/// meant.
std::string place_text(const DifferenceRow& row, const ComparedTensor& tensor, Index at) {
    std::string position = shape_text(position_of(at, shape_of(tensor)));
    if (row.n_tensors == 1) {
        return position;
    }
    std::vector<std::string_view> numbers;
    const auto components = split(tensor.name, '.');
    for (std::size_t i = 0; i < components.size(); ++i) {
        if (row.numbers[i].size() > 1) {
            numbers.push_back(components[i]);
        }
    }
    return "{" + joined(numbers, ".") + "} " + position;
}

std::vector<std::string> row_text(const DifferenceRow& row) {
    const ComparedTensor& first = *row.first;
    const numeric::Comparison& found = row.found;
    std::vector<std::string> cells = {name_text(row), std::string(name_of(first.verdict)),
                                      side_text(first.tested), side_text(first.reference)};
    if (found.n_elements > 0 && found.absolute.at >= 0) {
        cells.push_back(std::to_string(found.n_different) + " of " +
                        std::to_string(found.n_elements) +
                        (found.n_nan > 0 ? ", " + std::to_string(found.n_nan) + " NaN" : ""));
        cells.push_back(number_text(found.absolute.error));
        cells.push_back(place_text(row, *row.absolute, row.absolute->found.absolute.at));
        cells.push_back(number_text(found.relative.error));
        cells.push_back(place_text(row, *row.relative, row.relative->found.relative.at));
    }
    return cells;
}

/// The differences in the order of their names. Those that are alike but for numbers in their names
/// are one row, unless each tensor is to be shown.
std::vector<DifferenceRow> difference_rows(const Outcome& outcome, bool is_each_shown) {
    std::vector<DifferenceRow> rows;
    std::map<std::vector<std::string>, std::size_t> places;
    for (const ComparedTensor& tensor : outcome.tensors) {
        if (!is_difference(tensor.verdict)) {
            continue;
        }
        std::vector<std::string> key = {std::string(name_of(tensor.verdict)),
                                        side_text(tensor.tested), side_text(tensor.reference)};
        std::vector<std::set<Index>> numbers;
        for (const std::string_view component : split(tensor.name, '.')) {
            const auto number = is_each_shown ? std::nullopt : parse_index(component);
            numbers.push_back(number ? std::set<Index>{*number} : std::set<Index>());
            key.push_back(number ? "#" : "." + std::string(component));
        }
        const auto [at, is_new] = places.emplace(std::move(key), rows.size());
        if (is_new) {
            rows.emplace_back(tensor).numbers = std::move(numbers);
            continue;
        }
        DifferenceRow& row = rows[at->second];
        row.add(tensor);
        for (std::size_t i = 0; i < numbers.size(); ++i) {
            row.numbers[i].merge(numbers[i]);
        }
    }
    return rows;
}

std::string table_of(const Outcome& outcome, bool is_each_shown) {
    const std::vector<DifferenceRow> found = difference_rows(outcome, is_each_shown);
    if (found.empty()) {
        return "";
    }
    std::vector<std::vector<std::string>> rows = {{"tensor", "difference", "tested", "reference",
                                                   "elements", "absolute", "at", "relative", "at"}};
    const std::size_t n_shown = is_each_shown ? found.size() : std::min(found.size(), kMostRows);
    for (std::size_t i = 0; i < n_shown; ++i) {
        rows.push_back(row_text(found[i]));
    }
    return table(std::vector<Align>(rows.front().size(), Align::left), rows) +
           more_text(found.size() - n_shown) + "\n";
}

std::string cut(const std::string& value) {
    return value.empty() ? "-" : printable(value, kLongestValue);
}

std::string config_table(const std::vector<ConfigDifference>& differences, bool is_each_shown) {
    if (differences.empty()) {
        return "";
    }
    std::vector<std::vector<std::string>> rows = {{"config.json", "tested", "reference"}};
    for (const ConfigDifference& difference : differences) {
        if (is_each_shown || rows.size() <= kMostRows) {
            rows.push_back(
                {printable(difference.field), cut(difference.tested), cut(difference.reference)});
        }
    }
    return table({Align::left, Align::left, Align::left}, rows) +
           more_text(differences.size() + 1 - rows.size()) + "\n";
}

/// "all bit for bit", "12 of them bit for bit".
std::string bits_text(const Outcome& outcome) {
    if (outcome.n_equal == 1) {
        return outcome.n_same_bits == 1 ? "bit for bit" : "not bit for bit";
    }
    if (outcome.n_same_bits == outcome.n_equal) {
        return "all bit for bit";
    }
    return (outcome.n_same_bits == 0 ? "none" : std::to_string(outcome.n_same_bits)) +
           " of them bit for bit";
}

/// "identical: all 46 tensors match bit for bit".
std::string summary(const Outcome& outcome) {
    const std::string differ = difference_text(outcome);
    if (!differ.empty()) {
        const std::string match = std::to_string(outcome.n_equal) +
                                  (outcome.n_equal == 1 ? " matches, " : " match, ") +
                                  bits_text(outcome);
        return differ + (outcome.n_equal == 0 ? "" : "; " + match) + "\n";
    }
    const std::string all = outcome.n_equal == 1
                                ? "the only tensor matches"
                                : "all " + counted(outcome.n_equal, "tensor") + " match";
    return outcome.n_same_bits == outcome.n_equal
               ? "identical: " + all + " bit for bit\n"
               : "equal: " + all + " within the tolerance, " + bits_text(outcome) + "\n";
}

/// JSON has no infinity.
ordered_json number_json(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json("inf");
}

ordered_json side_json(const std::optional<TensorSide>& side) {
    return side ? ordered_json{{"dtype", std::string(torch_name(side->dtype))},
                               {"shape", side->shape}}
                : ordered_json();
}

ordered_json largest_json(const numeric::Largest& largest, const std::vector<Index>& shape) {
    return {{"error", number_json(largest.error)},
            {"at", largest.at < 0 ? ordered_json() : ordered_json(position_of(largest.at, shape))}};
}

ordered_json tensor_json(const ComparedTensor& row) {
    ordered_json json = {{"name", row.name},
                         {"result", std::string(name_of(row.verdict))},
                         {"tested", side_json(row.tested)},
                         {"reference", side_json(row.reference)}};
    json["tied_to"] = row.tied_to.empty() ? ordered_json() : ordered_json(row.tied_to);
    if (row.found.n_elements > 0) {
        json["compared_as"] = std::string(torch_name(row.compared_as));
        json["elements"] = row.found.n_elements;
        json["different"] = row.found.n_different;
        json["different_bits"] = row.found.n_unequal_bits;
        json["nan"] = row.found.n_nan;
        json["absolute"] = largest_json(row.found.absolute, shape_of(row));
        json["relative"] = largest_json(row.found.relative, shape_of(row));
    }
    if (row.quality) {
        json["quantised"] = json_of(*row.quality, row.encoding);
    }
    return json;
}

ordered_json parsed_or_null(const std::string& text) {
    auto json = text.empty() ? ordered_json() : parse_known_json<ordered_json>(text);
    return json.is_discarded() ? ordered_json(text) : json;  // NaN and infinities are no JSON
}

}  // namespace

std::string more_text(std::size_t n_rows) {
    return n_rows == 0
               ? ""
               : "and " + counted(n_rows, "more row") + "; -v lists all, --json their figures\n";
}

std::string_view name_of(Verdict verdict) {
    constexpr std::array kNames{"same_bits", "close", "missing", "extra",
                                "shape",     "dtype", "values"};
    static_assert(kNames.size() == static_cast<std::size_t>(Verdict::values) + 1);
    return kNames[static_cast<std::size_t>(verdict)];
}

bool is_difference(Verdict verdict) {
    return verdict != Verdict::same_bits && verdict != Verdict::close;
}

Matching match(const plan::WrittenTensors& tested, const std::vector<catalogue::Tensor>& reference,
               const StatedTies& ties) {
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

std::vector<ConfigDifference> config_differences(const std::string& tested,
                                                 const std::string& reference) {
    const auto a = parse_with_nonfinite(tested);
    const auto b = parse_with_nonfinite(reference);
    std::vector<ConfigDifference> differences;
    if (!a.is_object() || !b.is_object()) {
        return differences;
    }
    auto fields = a;
    fields.update(b);
    for (const auto& [field, value] : fields.items()) {
        const bool is_here = a.contains(field);
        const bool is_there = b.contains(field);
        if (field != "transformers_version" && (!is_here || !is_there || a[field] != b[field])) {
            const auto replace = nlohmann::json::error_handler_t::replace;
            const auto text_of = [&, &name = field](const nlohmann::json& config) {
                return with_nonfinite(config[name].dump(-1, ' ', false, replace));
            };
            differences.push_back({field, is_here ? text_of(a) : "", is_there ? text_of(b) : ""});
        }
    }
    return differences;
}

std::string comparison_text(const ComparedModels& models) {
    std::string text =
        table({Align::left, Align::left},
              {{"tested", models.tested},
               {"reference", models.reference},
               {"tolerance", number_text(models.tolerance.absolute) + " absolute, " +
                                 number_text(models.tolerance.relative) + " relative"}}) +
        "\n" + table_of(models.outcome, models.is_each_shown) +
        config_table(models.config, models.is_each_shown);
    for (const std::string& note : models.outcome.notes) {
        text += "note: " + note + "\n";
    }
    return text + summary(models.outcome);
}

std::string comparison_json(const ComparedModels& models) {
    const Outcome& outcome = models.outcome;
    ordered_json json = {{"schema", kComparisonSchema},
                         {"command", models.command},
                         {"tested", models.tested},
                         {"reference", models.reference},
                         {"atol", models.tolerance.absolute},
                         {"rtol", models.tolerance.relative},
                         {"strict_dtype", models.is_strict},
                         {"result", outcome.n_different == 0 ? "equal" : "different"},
                         {"n_equal", outcome.n_equal},
                         {"n_same_bits", outcome.n_same_bits},
                         {"n_different", outcome.n_different},
                         {"notes", outcome.notes}};
    json["config"] = ordered_json::array();
    for (const ConfigDifference& difference : models.config) {
        json["config"].push_back({{"field", difference.field},
                                  {"tested", parsed_or_null(difference.tested)},
                                  {"reference", parsed_or_null(difference.reference)}});
    }
    json["tensors"] = ordered_json::array();
    for (const ComparedTensor& row : outcome.tensors) {
        json["tensors"].push_back(tensor_json(row));
    }
    return json_text(json);
}

}  // namespace shardweld::app
