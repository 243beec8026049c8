// `shardweld check`: whether a model directory would load where it is to be served.

#include "loaders/check.hpp"

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "app/messages/log.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"
#include "served_model.hpp"

namespace shardweld::app {

namespace {

using loaders::Finding;
using nlohmann::ordered_json;

constexpr int kCheckSchema = 1;

/// "vLLM".
std::string title_of(loaders::Loader loader) {
    switch (loader) {
        case loaders::Loader::vllm:
            return "vLLM";
        case loaders::Loader::sglang:
            return "SGLang";
        case loaders::Loader::tgi:
            return "TGI";
        default:
            return std::string(loaders::name_of(loader));
    }
}

/// " with --tp 8"; "" for one device.
std::string devices_text(const Options& options) {
    const std::string tp =
        options.n_devices > 1 ? " --tp " + std::to_string(options.n_devices) : "";
    const std::string pp = options.n_stages > 1 ? " --pp " + std::to_string(options.n_stages) : "";
    return tp.empty() && pp.empty() ? "" : " with" + tp + pp;
}

std::string count_text(std::size_t n_errors, std::size_t n_warnings) {
    const std::string errors = n_errors == 0 ? "" : counted(n_errors, "error");
    const std::string warnings = n_warnings == 0 ? "" : counted(n_warnings, "warning");
    return errors + (errors.empty() || warnings.empty() ? "" : ", ") + warnings;
}

/// "OK: merged should load in vLLM with --tp 8 (1 warning)".
std::string verdict_text(std::size_t n_errors, std::size_t n_findings, const Options& options) {
    const std::string counts = count_text(n_errors, n_findings - n_errors);
    const std::string model = options.local_dir.string();
    const std::string loader = title_of(options.loader);
    const std::string devices = devices_text(options);
    return (n_errors == 0
                ? "OK: " + model + " should load in " + loader
                : "NOT OK: " + loader + " would refuse " + model + ", or load it wrongly") +
           (n_errors == 0 || devices.empty() ? "" : ",") + devices +
           (counts.empty() ? "" : " (" + counts + ")") + "\n";
}

/// Rows of a table whose last cell is a text: no line of it is longer than `width`.
void add_rows(const std::string& kind, const std::string& rule, const std::string& text,
              std::size_t width, std::vector<std::vector<std::string>>& rows) {
    std::string lines = wrapped(text, 0, width);
    lines.pop_back();
    for (const std::string_view line : split(lines, '\n')) {
        const bool is_first = line.data() == lines.data();
        rows.push_back({is_first ? kind : "", is_first ? rule : "", std::string(line)});
    }
}

/// How wide the texts may be beside what stands in front of them.
std::size_t text_width(const std::vector<Finding>& findings, std::size_t width) {
    constexpr std::size_t kLeast = 24;
    std::size_t rule = 0;
    for (const Finding& finding : findings) {
        rule = std::max(rule, finding.rule.size());
    }
    const std::size_t in_front = std::string_view("warning    ").size() + rule;
    return width < in_front + kLeast ? std::string::npos : width - in_front;
}

/// `width` of the lines; 0: whatever the texts need.
std::string text_of(const std::vector<Finding>& findings, std::size_t n_errors,
                    const Options& options, std::size_t width) {
    std::vector<std::vector<std::string>> rows;
    const std::size_t room = text_width(findings, width);
    for (const Finding& finding : findings) {
        add_rows(finding.is_fatal ? "error" : "warning", finding.rule, finding.text, room, rows);
        if (!finding.hint.empty()) {
            add_rows("", "", "hint: " + finding.hint, room, rows);
        }
    }
    return table({Align::left, Align::left, Align::left}, rows) +
           verdict_text(n_errors, findings.size(), options);
}

std::string findings_json(const std::vector<Finding>& findings, const Options& options) {
    ordered_json json = {{"schema", kCheckSchema},
                         {"directory", options.local_dir.string()},
                         {"target", loaders::name_of(options.loader)},
                         {"tp", options.n_devices},
                         {"pp", options.n_stages},
                         {"findings", ordered_json::array()}};
    for (const Finding& finding : findings) {
        json["findings"].push_back({{"fatal", finding.is_fatal},
                                    {"rule", finding.rule},
                                    {"text", finding.text},
                                    {"hint", finding.hint}});
    }
    return json_text(json);
}

}  // namespace

int check(const Options& options, std::ostream& out) {
    const std::vector<Finding> findings =
        loaders::check(read_served_model(options.local_dir, options.loader),
                       {options.loader, options.n_devices, options.n_stages});
    const auto n_errors =
        static_cast<std::size_t>(std::ranges::count(findings, true, &Finding::is_fatal));
    out << (options.json ? findings_json(findings, options)
                         : text_of(findings, n_errors, options,
                                   out.rdbuf() == std::cout.rdbuf() ? width_of(STDOUT_FILENO) : 0));
    if (n_errors > 0) {
        const std::string devices = devices_text(options);
        throw Error(ErrorCode::strict, counted(n_errors, "error") + ": " +
                                           title_of(options.loader) +
                                           " would refuse this model, or load it wrongly" +
                                           (devices.empty() ? "" : ",") + devices);
    }
    return 0;
}

}  // namespace shardweld::app
