#include "base_summary.hpp"

#include <utility>

#include "core/text.hpp"

namespace shardweld::app {

namespace {

std::string names_text(std::vector<std::string> names) {
    for (std::string& name : names) {
        name = printable(name);
    }
    return listed(names);
}

}  // namespace

BaseSummary summary_of(std::string directory, const ComparedModels& models,
                       const std::function<bool(const std::string&)>& is_aside) {
    BaseSummary summary;
    summary.directory = std::move(directory);
    for (const ComparedTensor& row : models.tensors) {
        if (row.found.n_elements > 0) {
            ++summary.n_compared;
            summary.n_equal += row.found.n_unequal_bits == 0 ? 1U : 0U;
            if (row.found.n_different > 0) {
                summary.changed.push_back(row.name);
            }
            if (row.found.absolute.error > summary.max_absolute) {
                summary.max_absolute = row.found.absolute.error;
                summary.max_tensor = row.name;
            }
        } else if (row.verdict == Verdict::extra || row.verdict == Verdict::missing) {
            auto& names = row.verdict == Verdict::extra ? summary.extra : summary.missing;
            if (!is_aside(row.name)) {
                names.push_back(row.name);
            }
        } else {
            summary.shapes.push_back(row.name);
        }
    }
    return summary;
}

std::string text_of(const BaseSummary& summary) {
    std::string text = "compared with the base " + summary.directory + ": " +
                       std::to_string(summary.n_compared - summary.n_equal) + " of " +
                       std::to_string(summary.n_compared) + " tensors differ";
    if (!summary.max_tensor.empty()) {
        text += ", at most by " + number_text(summary.max_absolute) + " (" +
                printable(summary.max_tensor) + ")";
    }
    if (!summary.extra.empty()) {
        text += "; only in the result: " + names_text(summary.extra);
    }
    if (!summary.missing.empty()) {
        text += "; only in the base: " + names_text(summary.missing);
    }
    return text;
}

Warnings base_warnings(const BaseSummary& summary) {
    Warnings warnings;
    if (summary.n_compared == summary.n_equal && summary.shapes.empty()) {
        warnings.push_back({"equals_base", "",
                            "no tensor differs from the base " + summary.directory + " (" +
                                std::to_string(summary.n_compared) +
                                " compared): was the training applied?"});
    }
    if (!summary.shapes.empty()) {
        warnings.push_back({"base_differs_shape", summary.shapes.front(),
                            counted(summary.shapes.size(), "tensor") +
                                " cannot be compared with the base's, which have other shapes or "
                                "types: " +
                                names_text(summary.shapes)});
    }
    if (!summary.missing.empty()) {
        warnings.push_back({"base_missing", summary.missing.front(),
                            counted(summary.missing.size(), "tensor") + " of the base " +
                                verb_of(summary.missing.size(), "is", "are") +
                                " not in the result: " + names_text(summary.missing) + "; " +
                                verb_of(summary.missing.size(), "was it", "were they") + " lost?"});
    }
    if (!summary.extra.empty()) {
        warnings.push_back({"base_extra", summary.extra.front(),
                            counted(summary.extra.size(), "tensor") + " of the result " +
                                verb_of(summary.extra.size(), "is", "are") + " not in the base: " +
                                names_text(summary.extra) + "; is it the model that was trained?"});
    }
    return warnings;
}

}  // namespace shardweld::app
