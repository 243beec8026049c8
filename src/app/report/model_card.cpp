#include "model_card.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/names/names.hpp"
#include "core/text.hpp"

namespace shardweld::app {

namespace {

using Row = std::pair<std::string, std::string>;

/// ORG/NAME, as the Hub has them (huggingface_hub 2.4, utils/_validators.py).
bool is_hub_name(const std::string& name) {
    constexpr std::size_t kMostLetters = 96;
    const auto parts = split(name, '/');
    return parts.size() == 2 && !has_part(name, "--") && !has_part(name, "..") &&
           !name.ends_with(".git") && std::ranges::all_of(parts, [](std::string_view part) {
               const auto is_edge = [](char c) { return c == '-' || c == '.'; };
               return is_plain_name(part) && !has_part(part, '=') && part.size() <= kMostLetters &&
                      !is_edge(part.front()) && !is_edge(part.back());
           });
}

/// Text in a cell of a table: no character of it means something to Markdown's reader.
std::string cell(const std::string& text) {
    std::string out;
    for (const char one : printable(text)) {
        out += one == '|' || one == '<' || one == '*' || one == '_' || one == '[' ? "\\" : "";
        out += one;
    }
    return out;
}

std::string code(std::string text) {
    std::erase(text, '`');
    std::ranges::replace(text, '|', '/');
    return "`" + printable(text) + "`";
}

std::string checkpoint_text(const InputReport& input) {
    return cell(input.format) + catalogue::iteration_text(input.facts);
}

std::string supplement_text(const std::vector<std::string>& names) {
    return names.empty()
               ? ""
               : counted(names.size(), "tensor") +
                     " of a reference, which the checkpoint does not have: " + cell(listed(names));
}

std::string checkpoints_text(const RunReport& run) {
    return run.mixed.empty() ? checkpoint_text(run.input)
                             : joined(run.mixed, "; ", [](const MixedInput& one) {
                                   return checkpoint_text(one.input);
                               });
}

/// How many of the tensors have such values.
std::string values_text(const std::optional<std::vector<OddTensor>>& odd) {
    if (!odd) {
        return "";
    }
    const auto n_odd =
        std::ranges::count_if(*odd, [](const OddTensor& one) { return one.n_nan + one.n_inf > 0; });
    return n_odd == 0 ? "; no value is NaN or infinite"
                      : "; values of " + counted(n_odd, "tensor") + " are NaN or infinite";
}

std::string checks_text(const RunReport& run, const OutputReport& report) {
    const auto standing = run.input.provenance.standing;
    return "every element is written once, and every stored byte is written or listed with its "
           "reason" +
           values_text(report.odd) +
           (standing == catalogue::Standing::proved ? "; every file says that it is of one save"
                                                    : "");
}

std::string command_text(const RunReport& run, const std::vector<std::string>& options) {
    return "shardweld " + run.command + (options.empty() ? "" : " ") + joined(options, " ");
}

std::vector<Row> rows_of(const RunReport& run, const OutputReport& report,
                         const std::string& base_model) {
    std::vector<Row> rows = {
        {"class", report.model_class.empty() ? "" : code(report.model_class)},
        {"size", cell(report.size.text())},
        {"files", cell(report.format)},
        {"base model", is_hub_name(base_model) ? cell(base_model) : ""},
        {run.mixed.empty() ? "checkpoint" : "checkpoints", checkpoints_text(run)},
        {"supplement", supplement_text(report.supplement)},
        {"recipe", run.recipe.empty() ? "" : cell(run.recipe)},
        {"command", code(command_text(run, report.made_of->options))},
        {"checks", checks_text(run, report)}};
    std::erase_if(rows, [](const Row& row) { return row.second.empty(); });
    return rows;
}

}  // namespace

std::string model_card(const RunReport& run, const OutputReport& report,
                       const std::string& base_model) {
    std::string text = "---\n";
    text += report.format == "safetensors" ? "library_name: transformers\n" : "";
    text += is_hub_name(base_model) ? "base_model: " + base_model + "\n" : "";
    text += "tags:\n- shardweld\n---\n\n# " +
            (report.model_class.empty() ? "Model" : cell(report.model_class)) +
            "\n\nMade from a training checkpoint by shardweld.\n\n| | |\n|---|---|\n";
    for (const auto& [name, value] : rows_of(run, report, base_model)) {
        text += "| " + name + " | " + value + " |\n";
    }
    return text;
}

}  // namespace shardweld::app
