#include "code_quality.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "app/messages/table.hpp"
#include "app/report/json_parts.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

using nlohmann::ordered_json;

constexpr int kQualitySchema = 1;
constexpr std::size_t kMostShown = 100;  // a table of a whole model is too long to read

struct CodedRow {
    const ComparedTensor* tensor;
    const CodedModel* model;
};

std::vector<CodedRow> worst_first(const std::vector<CodedModel>& models) {
    std::vector<CodedRow> rows;
    for (const CodedModel& model : models) {
        for (const ComparedTensor& tensor : model.outcome.tensors) {
            if (tensor.quality) {
                rows.push_back({&tensor, &model});
            }
        }
    }
    std::ranges::stable_sort(rows, std::greater<>(), [](const CodedRow& row) {
        return row.tensor->quality->relative_error();
    });
    return rows;
}

std::vector<std::string> cells_of(const CodedRow& row) {
    const numeric::Quality& quality = *row.tensor->quality;
    return {printable(row.tensor->name),
            row.model->directory,
            row.tensor->encoding,
            number_text(quality.relative_error()),
            std::to_string(quality.n_saturated),
            std::to_string(quality.n_zeroed),
            shape_text(std::array{quality.worst.row, quality.worst.column}),
            number_text(quality.worst.error)};
}

std::string worst_table(const std::vector<CodedModel>& models) {
    std::vector<std::vector<std::string>> cells = {{"tensor", "model", "encoding", "relative error",
                                                    "saturated", "zeroed", "worst tile at",
                                                    "its error"}};
    const std::vector<CodedRow> rows = worst_first(models);
    for (std::size_t at = 0; at < std::min(rows.size(), kMostShown); ++at) {
        cells.push_back(cells_of(rows[at]));
    }
    if (rows.empty()) {
        return "";
    }
    std::string text = table(std::vector<Align>(cells.front().size(), Align::left), cells);
    if (rows.size() > kMostShown) {
        text += "and " + std::to_string(rows.size() - kMostShown) +
                " more that are nearer, which --json lists\n";
    }
    return text + "\n";
}

/// All codes of a model together, and what is no code.
struct CodedSums {
    explicit CodedSums(const CodedModel& model) {
        for (const ComparedTensor& tensor : model.outcome.tensors) {
            if (tensor.quality) {
                ++n_coded;
                all.add(*tensor.quality);
            } else if (tensor.found.n_elements > 0) {
                ++n_others;
                n_same_bits += tensor.found.n_unequal_bits == 0 ? 1U : 0U;
            }
        }
    }

    std::size_t n_coded = 0;
    std::size_t n_others = 0;
    std::size_t n_same_bits = 0;
    numeric::Quality all;
};

std::string sums_line(const CodedModel& model) {
    const CodedSums sums(model);
    return model.directory + ": " + counted(sums.n_coded, "quantised tensor") +
           ", relative error " + number_text(sums.all.relative_error()) + ", " +
           std::to_string(sums.all.n_saturated) + " values saturated, " +
           std::to_string(sums.all.n_zeroed) + " read as zero; of " +
           counted(sums.n_others, "other tensor") + " " + std::to_string(sums.n_same_bits) +
           " equal bit for bit\n";
}

bool is_elsewhere(const ComparedTensor& tensor) {
    return tensor.found.n_elements == 0 && is_difference(tensor.verdict);
}

ordered_json model_json(const CodedModel& model) {
    const CodedSums sums(model);
    ordered_json json = {
        {"directory", model.directory},      {"relative_error", sums.all.relative_error()},
        {"saturated", sums.all.n_saturated}, {"zeroed", sums.all.n_zeroed},
        {"n_others", sums.n_others},         {"n_same_bits", sums.n_same_bits},
        {"tensors", ordered_json::array()},  {"not_compared", ordered_json::array()}};
    for (const ComparedTensor& tensor : model.outcome.tensors) {
        if (tensor.quality) {
            json["tensors"].push_back(
                {{"name", tensor.name}, {"quantised", json_of(*tensor.quality, tensor.encoding)}});
        } else if (is_elsewhere(tensor)) {
            json["not_compared"].push_back(
                {{"name", tensor.name}, {"why", std::string(name_of(tensor.verdict))}});
        }
    }
    return json;
}

}  // namespace

std::string quality_text(const std::string& base, const std::vector<CodedModel>& models) {
    std::string text = "base  " + base + "\n\n" + worst_table(models);
    for (const CodedModel& model : models) {
        for (const std::string& note : model.outcome.notes) {
            text += "note: " + note + "\n";
        }
    }
    for (const CodedModel& model : models) {
        text += sums_line(model);
    }
    return text;
}

std::string quality_json(const std::string& base, const std::vector<CodedModel>& models) {
    ordered_json json = {{"schema", kQualitySchema},
                         {"command", "diff"},
                         {"base", base},
                         {"models", ordered_json::array()}};
    for (const CodedModel& model : models) {
        json["models"].push_back(model_json(model));
    }
    return json_text(json);
}

void require_same_tensors(const CodedModel& model, const std::string& base) {
    std::vector<std::string> names;
    for (const ComparedTensor& tensor : model.outcome.tensors) {
        if (is_elsewhere(tensor)) {
            names.push_back(printable(tensor.name) + " (" + std::string(name_of(tensor.verdict)) +
                            ")");
        }
    }
    if (!names.empty()) {
        throw Error(ErrorCode::differs,
                    model.directory + " and " + base + " have other tensors: " + listed(names),
                    "give the model that was quantised as --base");
    }
}

}  // namespace shardweld::app
