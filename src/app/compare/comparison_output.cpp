#include "comparison_output.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/json_parts.hpp"
#include "core/json.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kComparisonSchema = 1;
// A table of a whole model is too long to read.
constexpr std::size_t kMostRows = 100;
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

std::vector<std::string> row_text(const ComparedTensor& row) {
    std::vector<std::string> cells = {printable(row.name), std::string(name_of(row.verdict)),
                                      side_text(row.tested), side_text(row.reference)};
    if (row.found.n_elements > 0 && row.found.absolute.at >= 0) {
        const std::vector<Index>& shape = shape_of(row);
        cells.push_back(
            std::to_string(row.found.n_different) + " of " + std::to_string(row.found.n_elements) +
            (row.found.n_nan > 0 ? ", " + std::to_string(row.found.n_nan) + " NaN" : ""));
        for (const numeric::Largest* largest : {&row.found.absolute, &row.found.relative}) {
            cells.push_back(number_text(largest->error));
            cells.push_back(shape_text(position_of(largest->at, shape)));
        }
    }
    return cells;
}

std::string table_of(const Outcome& outcome) {
    std::vector<std::vector<std::string>> rows = {{"tensor", "difference", "tested", "reference",
                                                   "elements", "absolute", "at", "relative", "at"}};
    for (const ComparedTensor& row : outcome.tensors) {
        if (is_difference(row.verdict) && rows.size() <= kMostRows) {
            rows.push_back(row_text(row));
        }
    }
    if (rows.size() == 1) {
        return "";
    }
    std::string text = table(std::vector<Align>(rows.front().size(), Align::left), rows);
    if (outcome.n_different > kMostRows) {
        text += "and " + std::to_string(outcome.n_different - kMostRows) +
                " more, which --json lists\n";
    }
    return text + "\n";
}

std::string cut(const std::string& value) {
    return value.empty() ? "-" : printable(value, kLongestValue);
}

std::string config_table(const std::vector<ConfigDifference>& differences) {
    if (differences.empty()) {
        return "";
    }
    std::vector<std::vector<std::string>> rows = {{"config.json", "tested", "reference"}};
    for (const ConfigDifference& difference : differences) {
        rows.push_back(
            {printable(difference.field), cut(difference.tested), cut(difference.reference)});
    }
    return table({Align::left, Align::left, Align::left}, rows) + "\n";
}

std::string summary(const Outcome& outcome) {
    const std::string differ = difference_text(outcome);
    return std::to_string(outcome.n_equal) + (outcome.n_equal == 1 ? " tensor" : " tensors") +
           " equal, bit for bit " + std::to_string(outcome.n_same_bits) +
           (differ.empty() ? "" : "; " + differ) + "\n";
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
    auto json = text.empty() ? ordered_json() : ordered_json::parse(text, nullptr, false);
    return json.is_discarded() ? ordered_json(text) : json;  // NaN and infinities are no JSON
}

}  // namespace

std::vector<ConfigDifference> config_differences(const std::string& tested,
                                                 const std::string& reference) {
    const auto a = parse_json(tested);
    const auto b = parse_json(reference);
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
            const auto text_of = [&](const nlohmann::json& config) {
                return with_nonfinite(config[field].dump(-1, ' ', false, replace));
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
        "\n" + table_of(models.outcome) + config_table(models.config);
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
