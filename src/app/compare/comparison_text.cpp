// A comparison as text and as JSON.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/checkpoint_text.hpp"
#include "app/report/report_json.hpp"
#include "app/settings/command_table.hpp"
#include "core/json.hpp"
#include "core/text.hpp"

#include "comparison.hpp"

namespace shardweld::app {

namespace {

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
    return side ? torch_name(side->dtype) + " " + shape_text(side->shape) : "-";
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
    for (const std::size_t i : indices(components)) {
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
    for (const std::size_t i : indices(components)) {
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
std::vector<DifferenceRow> difference_rows(const ComparedModels& models, bool is_each_shown) {
    std::vector<DifferenceRow> rows;
    std::map<std::vector<std::string>, std::size_t> places;
    for (const ComparedTensor& tensor : models.tensors) {
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
        for (const std::size_t i : indices(numbers)) {
            row.numbers[i].merge(numbers[i]);
        }
    }
    return rows;
}

std::string table_of(const ComparedModels& models, bool is_each_shown) {
    const std::vector<DifferenceRow> found = difference_rows(models, is_each_shown);
    if (found.empty()) {
        return "";
    }
    Cells rows = {{"tensor", "difference", "tested", "reference", "elements", "absolute", "at",
                   "relative", "at"}};
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
    Cells rows = {{"config.json", "tested", "reference"}};
    for (const ConfigDifference& difference : differences) {
        if (is_each_shown || rows.size() <= kMostRows) {
            rows.push_back(
                {printable(difference.field), cut(difference.tested), cut(difference.reference)});
        }
    }
    return table({Align::left, Align::left, Align::left}, rows) +
           more_text(differences.size() + 1 - rows.size()) + "\n";
}

std::size_t count_of(const ComparedModels& models, Verdict verdict) {
    return as_size(std::ranges::count(models.tensors, verdict, &ComparedTensor::verdict));
}

/// "all bit for bit", "12 of them bit for bit".
std::string bits_text(std::size_t n_equal, std::size_t n_same_bits) {
    if (n_equal == 1) {
        return n_same_bits == 1 ? "bit for bit" : "not bit for bit";
    }
    if (n_same_bits == n_equal) {
        return "all bit for bit";
    }
    return (n_same_bits == 0 ? "none" : std::to_string(n_same_bits)) + " of them bit for bit";
}

/// "identical: all 46 tensors match bit for bit".
std::string summary(const ComparedModels& models) {
    const std::size_t n_equal = models.tensors.size() - models.n_different();
    const std::size_t n_same_bits = count_of(models, Verdict::same_bits);
    const std::string bits = bits_text(n_equal, n_same_bits);
    const std::string differ = difference_text(models);
    if (!differ.empty()) {
        const std::string match =
            std::to_string(n_equal) + (n_equal == 1 ? " matches, " : " match, ") + bits;
        return differ + (n_equal == 0 ? "" : "; " + match) + "\n";
    }
    const std::string all =
        n_equal == 1 ? "the only tensor matches" : "all " + counted(n_equal, "tensor") + " match";
    return n_same_bits == n_equal ? "identical: " + all + " bit for bit\n"
                                  : "equal: " + all + " within the tolerance, " + bits + "\n";
}

/// JSON has no infinity.
ordered_json number_json(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json("inf");
}

ordered_json side_json(const std::optional<TensorSide>& side) {
    return side ? ordered_json{{"dtype", torch_name(side->dtype)}, {"shape", side->shape}}
                : ordered_json();
}

ordered_json largest_json(const numeric::Largest& largest, const std::vector<Index>& shape) {
    return {{"error", number_json(largest.error)},
            {"at", largest.at < 0 ? ordered_json() : ordered_json(position_of(largest.at, shape))}};
}

ordered_json compared_json(const ComparedTensor& row) {
    ordered_json json = {{"name", row.name},
                         {"result", std::string(name_of(row.verdict))},
                         {"tested", side_json(row.tested)},
                         {"reference", side_json(row.reference)}};
    json["tied_to"] = json_or_null(row.tied_to);
    if (row.found.n_elements > 0) {
        json["compared_as"] = torch_name(row.compared_as);
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

std::string difference_text(const ComparedModels& models) {
    constexpr std::array<std::pair<Verdict, std::string_view>, 5> kKinds = {
        {{Verdict::missing, "missing"},
         {Verdict::extra, "extra"},
         {Verdict::shape, "in shape"},
         {Verdict::dtype, "in dtype"},
         {Verdict::values, "in values"}}};
    std::string text;
    for (const auto& [verdict, words] : kKinds) {
        if (const std::size_t count = count_of(models, verdict); count > 0) {
            text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(words);
        }
    }
    return text.empty() ? ""
                        : std::to_string(models.n_different()) + " of " +
                              std::to_string(models.tensors.size()) + " tensors differ: " + text;
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

std::string comparison_text(const Job& job, const ComparedModels& models,
                            const std::vector<ConfigDifference>& config) {
    const bool is_each_shown = job.run.log_level == LogLevel::debug;
    std::string text = table({Align::left, Align::left},
                             {{"tested", job.inputs.front().directory.string()},
                              {"reference", job.run.reference.string()},
                              {"tolerance", number_text(job.run.atol) + " absolute, " +
                                                number_text(job.run.rtol) + " relative"}}) +
                       "\n" + table_of(models, is_each_shown) + config_table(config, is_each_shown);
    for (const std::string& note : models.notes) {
        text += "note: " + note + "\n";
    }
    return text + summary(models);
}

std::string comparison_json(const Job& job, const ComparedModels& models,
                            const std::vector<ConfigDifference>& config) {
    const std::string tested = job.inputs.front().directory.string();
    const std::size_t n_different = models.n_different();
    ordered_json json = {{"schema", kComparisonSchema},
                         {"ok", n_different == 0},
                         {"dir", tested},
                         {"command", row_for(job.command).name},
                         {"tested", tested},
                         {"reference", job.run.reference.string()},
                         {"atol", job.run.atol},
                         {"rtol", job.run.rtol},
                         {"strict_dtype", job.run.strict_dtype},
                         {"result", n_different == 0 ? "equal" : "different"},
                         {"n_equal", models.tensors.size() - n_different},
                         {"n_same_bits", count_of(models, Verdict::same_bits)},
                         {"n_different", n_different},
                         {"notes", models.notes}};
    json["config"] = collect_list(config, [](const ConfigDifference& difference) -> ordered_json {
        return {{"field", difference.field},
                {"tested", parsed_or_null(difference.tested)},
                {"reference", parsed_or_null(difference.reference)}};
    });
    json["tensors"] = collect_list(models.tensors, compared_json);
    return json_text(json);
}

}  // namespace shardweld::app
